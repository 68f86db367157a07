package main

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/soak/history"
)

// podWatch feeds a history with the pods of the API server.
type podWatch struct {
	api    *history.API
	pods   corev1.PodInterface
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// watchPods starts to watch pods. Their client must have no request timeout.
func watchPods(ctx context.Context, pods corev1.PodInterface) *podWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &podWatch{api: &history.API{}, pods: pods, cancel: cancel}
	w.ended.Go(func() {
		for ctx.Err() == nil {
			w.follow(ctx)
			_ = pace.Sleep(ctx, 100*time.Millisecond)
		}
	})
	return w
}

func (w *podWatch) close() {
	w.cancel()
	w.ended.Wait()
}

// follow lists the pods and watches them until the watch cannot be resumed.
func (w *podWatch) follow(ctx context.Context) {
	list, err := w.pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	now := time.Now()
	var uids []string
	for i := range list.Items {
		w.api.See(&list.Items[i], false, now)
		uids = append(uids, string(list.Items[i].UID))
	}
	w.api.Existing(uids, now)
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return w.pods.Watch(ctx, options)
		},
	})
	if err != nil {
		return
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if pod, ok := event.Object.(*v1.Pod); ok {
			w.api.See(pod, event.Type == watch.Deleted, time.Now())
		}
	}
}
