package fields

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerRows are the fields of a container's configuration, without mounts, security and limits.
func containerRows() []row {
	return []row{
		{
			fields: of("ContainerMetadata", "name", "attempt"),
			says: "They name the container, as in dockershim; a second container of the pod with the same values is " +
				"refused.",
			seen: []string{"test/e2e.TestCrictlContainer", kindsTest + "/difficult names"},
			containers: []refusal{
				{"no name", invalid, "config.metadata.name", func(r *request) { r.container.Metadata.Name = "" }},
				{"long name", invalid, "config.metadata.name", func(r *request) {
					r.container.Metadata.Name = strings.Repeat("x", 254)
				}},
			},
		},
		{
			fields: of("ContainerConfig", "metadata", "image", "mounts", "devices", "linux", "CDI_devices"),
			says:   leads,
			containers: []refusal{
				{"no metadata", invalid, "config.metadata", func(r *request) { r.container.Metadata = nil }},
				{"no image", invalid, "config.image", func(r *request) { r.image = "" }},
				{"no mount", invalid, "config.mounts[1]",
					mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a"}, nil)},
				{"no device", invalid, "config.devices[0]", devicesOf(nil)},
			},
		},
		{
			fields: of("ContainerConfig", "command", "args"),
			says:   "A command replaces the image's entrypoint and arguments; arguments alone replace its arguments.",
			seen:   []string{appFields + "/process"},
			containers: []refusal{
				{"empty program", invalid, "config.command[0]",
					func(r *request) { r.container.Command = []string{"", "a"} }},
				{"NUL in the command", invalid, "config.command[1]",
					func(r *request) { r.container.Command = []string{"a", "\x00"} }},
				{"argument that is not text", invalid, "config.args[0]",
					func(r *request) { r.container.Args = []string{"\xff"} }},
			},
		},
		{
			fields: of("ContainerConfig", "working_dir"),
			says:   "The process starts in it, or in the image's directory.",
			seen:   []string{appFields + "/process"},
			containers: []refusal{
				{"relative working directory", invalid, "config.working_dir",
					func(r *request) { r.container.WorkingDir = "tmp" }},
			},
		},
		{
			fields: append(of("ContainerConfig", "envs"), of("KeyValue", "key", "value")...),
			says:   "They are added to the image's environment and override its variables.",
			seen:   []string{appFields + "/process"},
			containers: []refusal{
				{"variable without a name", invalid, "config.envs[1].key", envs(&runtimeapi.KeyValue{Key: "a"}, nil)},
				{"variable with an equals sign", invalid, "config.envs[0].key", envs(&runtimeapi.KeyValue{Key: "a=b"})},
				{"variable with a NUL", invalid, "config.envs[0].value",
					envs(&runtimeapi.KeyValue{Key: "a", Value: []byte{0}})},
				{"variable that is not text", invalid, "config.envs[0].value",
					envs(&runtimeapi.KeyValue{Key: "a", Value: []byte{0xff}})},
			},
		},
		{
			fields: of("ContainerConfig", "labels"),
			says:   "They are kept as labels of the engine's container and come back unchanged.",
			seen:   []string{"docker/translate.TestNothingLeaksIntoAPod"},
			containers: []refusal{
				{"labels that are no text", invalid, "config.labels",
					func(r *request) { r.container.Labels = map[string]string{"\xff": ""} }},
			},
		},
		{
			fields: of("ContainerConfig", "annotations"),
			says: "They come back unchanged. Keys that begin with `cdi.k8s.io/` name CDI devices, beside " +
				"CDI_devices. The OCI runtime gets the keys that --runtime-annotations names, of the container " +
				"and its pod.",
			refuses: "`cdi.k8s.io/…` where neither the engine nor `criadapter-oci` injects CDI devices, and " +
				"the container would lack them",
			seen: []string{"docker/translate.TestNothingLeaksIntoAPod"},
			uses: []use{
				{"ContainerConfig.annotations", func(r *request) {
					r.container.Annotations = map[string]string{"cdi.k8s.io/a_b": "vendor.com/gpu=0"}
				}},
			},
			containers: []refusal{
				{"annotations that are no text", invalid, "config.annotations",
					func(r *request) { r.container.Annotations = map[string]string{"\xff": ""} }},
				{"CDI device by annotation on an old engine", unsupported, "config.annotations[cdi.k8s.io/a_b]",
					cdiAnnotations("a_b", "vendor.com/gpu=0")},
				{"CDI device by annotation without a class", invalid, "config.annotations[cdi.k8s.io/a_b]",
					cdiAnnotations("a_b", "vendor.com/gpu=0,gpu=1")},
			},
		},
		{
			fields: of("ContainerConfig", "log_path"),
			says:   "The output is written there below the pod's log_directory, in the CRI format.",
			seen:   []string{appFields + "/process"},
			containers: []refusal{
				{"absolute log path", invalid, "config.log_path", logPathOf("/var/log/app.log")},
				{"log path that begins with two dots", invalid, "config.log_path", logPathOf("../app.log")},
				{"log path that leaves the log directory", invalid, "config.log_path", logPathOf("a/../../app.log")},
				{"log path that is the directory", invalid, "config.log_path", logPathOf(".")},
				{"log path with a line break", invalid, "config.log_path", logPathOf("a\n")},
				{"long log path", invalid, "config.log_path", logPathOf(strings.Repeat("x", 4096))},
				{"bad log path without a log directory", invalid, "config.log_path", func(r *request) {
					r.pod.LogDirectory, r.container.LogPath = "", "/etc/passwd"
				}},
			},
		},
		{
			fields: of("ContainerConfig", "stdin", "stdin_once", "tty"),
			says: "With stdin the process's input stays open. With stdin_once it ends with the input of the first " +
				"client that attaches. With tty the process has a terminal.",
			seen: []string{"test/e2e.TestAttachAgain", "test/e2e.TestAttachStdinOnce",
				"test/e2e.TestAttachOnTerminal", kindsTest + "/a terminal"},
		},
		{
			fields: of("ContainerConfig", "stop_signal"),
			says:   "A stop sends it instead of the image's signal.",
			seen:   []string{appFields + "/stop signal", kindsTest + "/a real-time stop signal"},
			containers: []refusal{
				{"unknown stop signal", invalid, "config.stop_signal",
					func(r *request) { r.container.StopSignal = 99 }},
			},
		},
		{
			fields: of("Device", "container_path", "host_path", "permissions"),
			says: "The device, or each device below a directory, is made in the container. The container's cgroup " +
				"allows the access in permissions.",
			seen: []string{appFields + "/devices", kindsTest + "/devices"},
			containers: []refusal{
				{"relative device in the container", invalid, "config.devices[0].container_path",
					devicesOf(&runtimeapi.Device{HostPath: "/dev/null", ContainerPath: "null", Permissions: "r"})},
				{"relative device", invalid, "config.devices[0].host_path",
					devicesOf(&runtimeapi.Device{HostPath: "null", ContainerPath: "/dev/null", Permissions: "r"})},
				{"device without permissions", invalid, "config.devices[0].permissions",
					devicesOf(&runtimeapi.Device{HostPath: "/dev/null", ContainerPath: "/dev/null"})},
				{"device with unknown permissions", invalid, "config.devices[0].permissions",
					devicesOf(
						&runtimeapi.Device{HostPath: "/dev/null", ContainerPath: "/dev/null", Permissions: "rx"})},
			},
		},
		{
			fields: of("CDIDevice", "name"),
			says: "The container's commands have the device's variables and groups, too. " +
				"The engine applies the device's specification where it can; otherwise criadapter applies the " +
				"specifications in /etc/cdi and /var/run/cdi.",
			refuses: "any, where neither applies it: the engine would not start the container, or would ignore the " +
				"device",
			seen: []string{"test/e2e.TestCDIDevices"},
			uses: []use{
				{"CDIDevice.name", func(r *request) {
					r.container.CDIDevices = []*runtimeapi.CDIDevice{{Name: "vendor.com/gpu=0"}}
				}},
			},
			containers: []refusal{
				{"CDI device on an old engine", unsupported, "config.CDI_devices[0].name", withCDI("vendor.com/gpu=0")},
				{"CDI device on an engine without CDI", unsupported, "config.CDI_devices[0].name", func(r *request) {
					withCDI("vendor.com/gpu=0")(r)
					r.features = confined()
					r.features.CDI = false
				}},
				{"CDI device without a class", invalid, "config.CDI_devices[0].name", withCDI("gpu=0")},
				{"CDI device without a name", invalid, "config.CDI_devices[1].name", func(r *request) {
					withCDI("vendor.com/gpu=0", "vendor.com/gpu")(r)
					r.features = confined()
				}},
			},
		},
	}
}

// mountRows are the fields of mounts.
func mountRows() []row {
	return []row{
		{
			fields: of("Mount", "container_path", "host_path"),
			says: "A host path is mounted with all mounts below it; a missing path is created as a directory. " +
				"Of several mounts at one place, the last one counts.",
			seen: []string{appFields + "/paths", "container.TestRigMountSourceThatCannotBe"},
			containers: []refusal{
				{"no container path", invalid, "config.mounts[0].container_path",
					mountsOf(&runtimeapi.Mount{HostPath: "/a"})},
				{"root as container path", invalid, "config.mounts[0].container_path",
					mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a/.."})},
				{"image volume on the root", invalid, "config.mounts[0].container_path",
					mountsOf(&runtimeapi.Mount{ContainerPath: "/", Image: &runtimeapi.ImageSpec{Image: "x"}})},
				{"relative host path", invalid, "config.mounts[0].host_path",
					mountsOf(&runtimeapi.Mount{HostPath: "a", ContainerPath: "/a"})},
				{"no host path", invalid, "config.mounts[0].host_path",
					mountsOf(&runtimeapi.Mount{ContainerPath: "/a"})},
				{"host path with a NUL", invalid, "config.mounts[0].host_path",
					mountsOf(&runtimeapi.Mount{HostPath: "/a\x00", ContainerPath: "/a"})},
			},
		},
		{
			fields: of("Mount", "readonly"),
			says:   "The mount is read-only; mounts below it are not.",
			seen:   []string{appFields + "/paths"},
		},
		{
			fields:  of("Mount", "recursive_read_only"),
			says:    "Mounts below it are read-only, too; Status announces the feature where it works.",
			refuses: "any, on an engine that makes only the topmost mount read-only",
			seen:    []string{noteFields + "/recursive read-only"},
			uses: []use{
				{"Mount.recursive_read_only", func(r *request) {
					r.container.Mounts[0].Readonly, r.container.Mounts[0].RecursiveReadOnly = true, true
				}},
			},
			containers: []refusal{
				{"recursive read-only on an old engine", unsupported, "config.mounts[0].recursive_read_only",
					mountsOf(&runtimeapi.Mount{
						HostPath: "/a", ContainerPath: "/a", Readonly: true, RecursiveReadOnly: true,
					})},
				{"recursive read-only on a runtime without", unsupported, "config.mounts[0].recursive_read_only",
					func(r *request) {
						r.features, r.handler = confined(), "kata"
						r.container.Mounts = []*runtimeapi.Mount{
							{HostPath: "/a", ContainerPath: "/a", Readonly: true, RecursiveReadOnly: true}}
					}},
				{"recursive read-only of a writable mount", invalid, "config.mounts[0].recursive_read_only",
					mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a", RecursiveReadOnly: true})},
				{"recursive read-only with propagation", invalid, "config.mounts[0].recursive_read_only",
					mountsOf(&runtimeapi.Mount{
						HostPath: "/a", ContainerPath: "/a", Readonly: true, RecursiveReadOnly: true,
						Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
					})},
			},
		},
		{
			fields: of("Mount", "propagation"),
			says:   "PRIVATE, HOST_TO_CONTAINER and BIDIRECTIONAL are rprivate, rslave and rshared.",
			seen:   []string{appFields + "/paths", kindsTest + "/mounts"},
			containers: []refusal{
				{"unknown propagation", invalid, "config.mounts[0].propagation",
					mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a", Propagation: 7})},
				{"image volume with propagation", invalid, "config.mounts[0].propagation",
					mountsOf(
						&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"},
							Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL})},
			},
		},
		{
			fields: of("Mount", "selinux_relabel"),
			says:   "The files get the pod's label; without SELinux there are no labels.",
			refuses: "a path with a colon, and without `criadapter-oci` together with `recursive_read_only`: the " +
				"Docker API relabels only what is given as `source:target`",
			unseen: "no SELinux in the rig's kernel; docker/translate.TestRelabelledMounts shows what the engine gets",
			uses: []use{
				{"Mount.selinux_relabel", func(r *request) { relabel(r, "/a:b", false) }},
				{"Mount.selinux_relabel", func(r *request) {
					r.features.APIVersion = newest().APIVersion // an older engine refuses recursive_read_only itself
					relabel(r, "/srv", true)
				}},
			},
			containers: []refusal{
				{"relabelling a path with a colon", unsupported, "config.mounts[0].selinux_relabel", func(r *request) {
					r.features = confined()
					r.security().SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0"}
					r.container.Mounts = []*runtimeapi.Mount{
						{HostPath: "/a:b", ContainerPath: "/a", SelinuxRelabel: true}}
				}},
				{"relabelling a recursively read-only mount", unsupported, "config.mounts[0].selinux_relabel",
					func(r *request) {
						r.features = confined()
						r.security().SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0"}
						r.container.Mounts = []*runtimeapi.Mount{
							{HostPath: "/a", ContainerPath: "/a", SelinuxRelabel: true, Readonly: true,
								RecursiveReadOnly: true}}
					}},
			},
		},
		{
			fields: of("Mount", "image", "image_sub_path"),
			says: "An image or an OCI artifact, or a part of it, is mounted read-only; engines before 28 (API 1.48) " +
				"mount its extracted files.",
			seen: []string{"test/e2e.TestImageVolumes", "test/e2e.TestArtifactVolumes"},
			containers: []refusal{
				{"image volume", unsupported, "config.mounts[0].image",
					mountsOf(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"}})},
				{"image volume with a host path", invalid, "config.mounts[0].image",
					mountsOf(
						&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a",
							Image: &runtimeapi.ImageSpec{Image: "x"}})},
				{"part above the image", invalid, "config.mounts[0].image_sub_path",
					mountsOf(
						&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"},
							ImageSubPath: "a/../../b"})},
				{"absolute part of an image", invalid, "config.mounts[0].image_sub_path",
					mountsOf(
						&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"},
							ImageSubPath: "/etc"})},
				{"image directory without an image", invalid, "config.mounts[0].image_sub_path",
					mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a", ImageSubPath: "x"})},
			},
		},
		{
			fields: of("Mount", "uidMappings", "gidMappings"),
			says: "Inside the pod's user namespace, files keep the owners that they have on the node (idmapped " +
				"mounts).",
			refuses: "mappings other than the mappings of the pod's user namespace",
			seen:    []string{usersTest},
			uses: []use{
				{"Mount.uidMappings", func(r *request) {
					r.container.Mounts[0].UidMappings = ownUsers().GetUsernsOptions().GetUids()
				}},
				{"Mount.gidMappings", func(r *request) {
					r.container.Mounts[0].GidMappings = ownUsers().GetUsernsOptions().GetUids()
				}},
			},
		},
		{
			fields: of("Mount", "mount_options"),
			says: "nodev, noexec, nosuid, noatime, nodiratime, relatime and strictatime apply to the topmost " +
				"mount, other options are refused; Status announces the supported ones.",
			refuses: "any, without `criadapter-oci`: the Docker API has no options of bind mounts",
			seen:    []string{noteFields + "/mount options"},
			uses: []use{
				{"Mount.mount_options", func(r *request) { r.container.Mounts[0].MountOptions = []string{"noexec"} }},
			},
		},
	}
}
