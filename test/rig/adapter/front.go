package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// front is a proxy in front of a server's socket. It gives pods and containers without namespace options the options
// that a kubelet sets. Without them a pod shares its PID namespace, which needs a sandbox container.
type front struct {
	endpoint string
	server   *grpc.Server
	back     *grpc.ClientConn
	ended    chan error
}

func startFront(dir, endpoint string) (*front, error) {
	path := filepath.Join(dir, "front.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	back, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), quickly(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.ForceCodec(rawCodec{})))
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	f := &front{endpoint: "unix://" + path, back: back, ended: make(chan error, 1)}
	f.server = grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(maxMessage),
		grpc.UnknownServiceHandler(f.pass))
	go func() { f.ended <- f.server.Serve(listener) }()
	return f, nil
}

func (f *front) close() error {
	f.server.Stop()
	return errors.Join(<-f.ended, f.back.Close())
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

func (rawCodec) Name() string                          { return "proto" }
func (rawCodec) Marshal(message any) ([]byte, error)   { return *message.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, into any) error { *into.(*[]byte) = data; return nil }

// pass forwards one call. Every CRI call has exactly one request.
func (f *front) pass(_ any, caller grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(caller)
	var request []byte
	if err := caller.RecvMsg(&request); err != nil {
		return err
	}
	request, err := likeAKubelets(method, request)
	if err != nil {
		return err
	}
	ctx := caller.Context()
	if header, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, header)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call, err := f.back.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(call.SendMsg(&request), call.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	// A watch sends its header long before its first event.
	if header, err := call.Header(); err == nil && header != nil {
		if err := caller.SendHeader(header); err != nil {
			return err
		}
	}
	for {
		var answer []byte
		if err := call.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := caller.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// likeAKubelets edits the two requests that can have namespace options.
func likeAKubelets(method string, request []byte) ([]byte, error) {
	switch method {
	case runtimeapi.RuntimeService_RunPodSandbox_FullMethodName:
		return edited(request, func(r *runtimeapi.RunPodSandboxRequest) { podLikeAKubelets(r.GetConfig()) })
	case runtimeapi.RuntimeService_CreateContainer_FullMethodName:
		return edited(request, func(r *runtimeapi.CreateContainerRequest) {
			if podLikeAKubelets(r.GetSandboxConfig()) {
				containerLikeAKubelets(r.GetConfig())
			}
		})
	}
	return request, nil
}

func edited[T any, M interface {
	*T
	proto.Message
}](request []byte, edit func(M)) ([]byte, error) {
	message := M(new(T))
	if err := proto.Unmarshal(request, message); err != nil {
		return nil, fmt.Errorf("the front: %w", err)
	}
	edit(message)
	return proto.Marshal(message)
}

// podLikeAKubelets gives a pod without namespace options a kubelet's options, and reports whether it did.
func podLikeAKubelets(config *runtimeapi.PodSandboxConfig) bool {
	if config == nil || config.GetLinux().GetSecurityContext().GetNamespaceOptions() != nil {
		return false
	}
	if config.Linux == nil {
		config.Linux = &runtimeapi.LinuxPodSandboxConfig{}
	}
	if config.Linux.SecurityContext == nil {
		config.Linux.SecurityContext = &runtimeapi.LinuxSandboxSecurityContext{}
	}
	config.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	return true
}

func containerLikeAKubelets(config *runtimeapi.ContainerConfig) {
	if config == nil {
		return
	}
	if config.Linux == nil {
		config.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	if config.Linux.SecurityContext == nil {
		config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{}
	}
	if config.Linux.SecurityContext.NamespaceOptions == nil {
		config.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{}
	}
	if options := config.Linux.SecurityContext.NamespaceOptions; options.Pid == runtimeapi.NamespaceMode_POD {
		options.Pid = runtimeapi.NamespaceMode_CONTAINER
	}
}
