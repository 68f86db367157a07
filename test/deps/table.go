package deps

import "slices"

// Module is the prefix of this module's import paths.
const Module = "github.com/criadapter/criadapter"

// Rule lists the packages of Module that a package may import. All others are banned, for the reason Why.
type Rule struct {
	// Path is the import path below Module. A path that ends in /... also stands for every package below it.
	Path string
	// May lists the packages it may import; anything stands for all of them.
	May []string
	// Why is the reason why it may not import more.
	Why string
}

// anything in Rule.May allows every package that no Ban forbids.
const anything = "*"

// Rules is the import table. A package that it does not name must not exist.
func Rules() []Rule {
	return slices.Concat(programRules(), serviceRules(), internalRules(), kubeletRules(), podRules(),
		apiServerRules(), []Rule{
			{"packaging/manuals", []string{"cmd/criadapter/command", "cmd/kubelet-core/command"},
				"man pages and completion come from the command lines alone"},
			{"packaging/release", nil,
				"a release is made of files that the tree builds, not of its packages"},
			{"test/...", []string{anything},
				"tests may import every package"},
		})
}

// programRules are for criadapter's programs.
func programRules() []Rule {
	return []Rule{
		{"cmd/criadapter", []string{anything},
			"the program wires everything that serves CRI"},
		{"cmd/criadapter/command", []string{"cmd/criadapter/bundle", "cmd/criadapter/check",
			"cmd/criadapter/settings", "cmd/criadapter/status", "internal/config"},
			"the command line names the commands and their flags; the work of a command is in a package of its own"},
		{"cmd/criadapter/settings", []string{"docker", "image", "stats", "streaming", "internal/config"},
			"the package that uses a value validates it, at the start and for the commands"},
		{"cmd/criadapter/status", []string{"docker", "server", "internal/proctable", "internal/telemetry"},
			"it shows the server's verbose Status, read from the outside"},
		{"cmd/criadapter/bundle", []string{"cmd/criadapter/check", "cmd/criadapter/status", "internal/config"},
			"it collects what the other commands show, so that one place decides which data may leave a node"},
		{"cmd/criadapter/check", []string{"cmd/criadapter/status", "checkpoint", "docker", "docker/translate", "cni",
			"image/trust", "internal/checklist", "internal/netns", "internal/config", "nri"},
			"it checks the node as the services would and starts none of them, so that its findings are true " +
				"without a running server"},
		{"cmd/criadapter-oci", []string{"internal/bounded", "internal/mountquote", "internal/ocinote",
			"internal/userns"},
			"it starts once for each operation on a container: the standard library, mounts, notes and owners of " +
				"files are all it needs"},
	}
}

// serviceRules are for the services of CRI, and for the packages that they share.
func serviceRules() []Rule {
	return []Rule{
		{"server", []string{"server/fields", "sandbox", "container", "image", "streaming", "state", "stats", "docker",
			"cni", "internal/panics"},
			"the CRI surface validates, delegates and maps errors; records, namespaces and log files are the " +
				"services' business"},
		{"server/fields", []string{"docker"},
			"the table is data; docker/translate refuses what depends on the engine or the value, and a test " +
				"compares both"},
		{"sandbox", []string{"state", "docker", "docker/translate", "cni", "internal/netns", "internal/userns",
			"checkpoint", "internal/pause", "internal/cgroup", "internal/keylock", "internal/step"},
			"it declares the interfaces it needs of containers and images, so that each is tested alone and no cycle " +
				"can grow"},
		{"migrate", []string{"cni", "logs", "docker", "docker/translate", "internal/bounded", "internal/netns",
			"internal/proctable", "checkpoint"},
			"it prepares what is on disk before any service shows a pod, so it knows none of them"},
		{"nri", []string{"state", "docker/translate", "internal/keylock", "internal/ocinote"},
			"it owns the plugins: sandbox and container reach it through interfaces that they declare, and it costs " +
				"nothing when it is off"},
		{"container/dump", nil,
			"the files of a checkpoint are a format that other programs read"},
		{"container", []string{"container/dump", "state", "logs", "docker", "docker/translate", "checkpoint",
			"ociexec", "internal/cgroup", "internal/keylock", "internal/ocinote", "internal/proctable",
			"internal/step"},
			"a container knows its pod from the cache alone; networks and images reach it through interfaces it " +
				"declares"},
		{"ociexec", []string{"internal/ocinote", "internal/proctable", "internal/shimdir"},
			"it runs the OCI runtime as the engine's shim does, and knows neither the engine nor CRI"},
		{"image", []string{"docker", "image/registry", "image/trust", "internal/mountquote", "internal/pace",
			"internal/panics", "internal/pause"},
			"images exist without pods: they need no state but the engine's"},
		{"image/artifact", []string{"docker", "image/registry", "internal/wholedir"},
			"other packages see an artifact as an image: this package keeps the artifacts that the engine refuses"},
		{"image/registry", []string{"docker"},
			"every request to a registry goes through this package, unless the engine sends it"},
		{"image/trust", []string{"image/registry", "internal/bounded", "internal/yamldoc"},
			"a policy and signatures decide on names and digests: neither the engine nor CRI's messages take part"},
		{"image/volume", []string{"docker", "image/artifact", "internal/step", "internal/wholedir"},
			"an image's files do not depend on the containers that mount them; the engine lists those containers"},
		{"streaming", []string{"internal/linger", "internal/netns", "internal/panics"},
			"it serves HTTP over a small interface of its own, so that it runs in front of any runtime"},
		{"state", []string{"docker", "docker/translate", "checkpoint", "internal/pace"},
			"the cache is read by all services, so it can call none of them; log draining is a hook"},
		{"stats", []string{"state", "internal/hugepages", "internal/mountquote", "internal/netns", "internal/pace"},
			"stats come from the kernel's files: the engine's stats endpoint takes seconds and must not be called"},
		{"logs", []string{"docker", "checkpoint", "internal/pace", "internal/step"},
			"containers start and stop followers; a follower that read the cache could deadlock with its draining"},
		{"docker", []string{"internal/bounded", "internal/hugepages", "internal/ocinote", "internal/pause",
			"internal/proctable", "internal/shimdir", "internal/step", "internal/userns"},
			"it wraps the Docker API, and the OCI runtime for what the API cannot say; it knows neither CRI nor the " +
				"packages above"},
		{"docker/translate", []string{"docker", "internal/bounded", "internal/ocinote"},
			"translation is pure: its arguments hold all that it depends on"},
		{"docker/dockertest", []string{"docker", "internal/ocinote", "internal/testutil"},
			"the in-memory engine replaces only the real engine, or tests would test their own assumptions"},
		{"cni", []string{"internal/bounded", "internal/step"},
			"a network is set up for a namespace's path; how the namespace was made does not matter"},
		{"checkpoint", []string{"internal/step"},
			"records on disk must stay readable when other packages change"},
	}
}

// internalRules are for packages that belong to no service.
func internalRules() []Rule {
	return []Rule{
		{"internal/cgroup", []string{"internal/step"},
			"a limit is a file and a value; its callers find the cgroup"},
		{"internal/ocinote", nil,
			"two programs share notes, and one of them uses only the standard library"},
		{"internal/userns", nil,
			"a user namespace is the same for pods, their files and a probe, and criadapter-oci uses only the " +
				"standard library"},
		{"internal/netns", []string{"internal/osthread", "internal/proctable", "internal/step", "internal/userns"},
			"pods, stats and streams use namespaces in the same way"},
		{"internal/checklist", nil,
			"the form of a report, and facts that more than one command reports"},
		{"internal/sdnotify", nil,
			"it tells systemd the state of a service, whatever the service is"},
		{"internal/osthread", nil,
			"it runs a function on a thread of its own, whatever the function does there"},
		{"internal/pause", nil,
			"the sandbox image is the same bytes on each machine"},
		{"internal/config", []string{"internal/yamldoc"},
			"configuration is plain data that cmd passes on; a package that imported it would depend on all " +
				"flags"},
		{"internal/step", nil,
			"every package that changes something names its steps with it"},
		{"internal/proctable", nil,
			"the kernel's table of processes is read in the same way for all purposes"},
		{"internal/shimdir", nil,
			"commands and inspects find a container's bundle in the same way"},
		{"internal/bounded", nil,
			"a limit on a length does not depend on the content"},
		{"internal/hugepages", nil,
			"the kernel's sizes of huge pages are the same for the engine, stats and a node"},
		{"internal/keylock", nil,
			"a lock needs keys only"},
		{"internal/mountquote", nil,
			"the kernel quotes names in one way, for images, stats and the OCI runtime"},
		{"internal/linger", nil,
			"a connection ends in the same way, whatever it carried"},
		{"internal/pace", nil,
			"a pause depends on how long the work took, whatever the work is"},
		{"internal/panics", nil,
			"a panic is reported in the same way, whatever panicked"},
		{"internal/wholedir", nil,
			"a directory that appears and disappears whole: callers say what is in it"},
		{"internal/yamldoc", nil,
			"a text is split into documents in the same way, whatever they say"},
		{"internal/testutil", nil,
			"waiting and writing files are the same whatever is tested"},
		{"internal/telemetry", nil,
			"metrics and traces reach the packages as functions that each declares, so that none depends on " +
				"Prometheus or OpenTelemetry"},
	}
}

// kubeletRules are for the kubelet core and for the node as a whole.
func kubeletRules() []Rule {
	return []Rule{
		{"cmd/kubelet-core", []string{"cmd/kubelet-core/client", "cmd/kubelet-core/command"},
			"the kubelet's program works against any CRI socket, so it cannot know our server's insides; generate " +
				"alone reads an engine"},
		{"cmd/kubelet-core/command", []string{"kubelet", "kubelet/eviction", "cmd/kubelet-core/client",
			"cmd/kubelet-core/check", "cmd/kubelet-core/configfile", "cmd/kubelet-core/play",
			"cmd/kubelet-core/detach", "cmd/kubelet-core/bootunit", "cmd/kubelet-core/generate",
			"internal/sdnotify", "kubelet/model"},
			"the command line is known without running it, for man pages and completion"},
		{"kubelet", []string{"kubelet/podconfig", "kubelet/podworkers", "kubelet/podsync", "kubelet/housekeeping",
			"kubelet/admission",
			"kubelet/apiserver", "kubelet/nodeapi", "kubelet/pleg", "kubelet/kuberuntime", "kubelet/imagemanager",
			"kubelet/podspec", "kubelet/volumemanager", "kubelet/volumekinds", "kubelet/cgroup", "kubelet/prober",
			"kubelet/status", "kubelet/events", "kubelet/cri", "kubelet/manifest", "kubelet/nodelock",
			"kubelet/allocation", "kubelet/eviction", "kubelet/podstats", "kubelet/nodeshutdown",
			"kubelet/devicemanager", "kubelet/cpumanager", "kubelet/metrics", "kubelet/userns", "kubelet/backoff",
			"kubelet/model"},
			"the kubelet core wires its own parts and uses CRI only, or it would not show what a real kubelet sees"},
		{"kubelet/podsync", []string{"kubelet/podworkers", "kubelet/pleg", "kubelet/kuberuntime",
			"kubelet/volumemanager", "kubelet/cgroup",
			"kubelet/prober", "kubelet/status", "kubelet/events", "kubelet/allocation", "kubelet/model"},
			"the steps of one pod depend neither on its source nor on other pods"},
		{"kubelet/housekeeping", []string{"kubelet/podworkers", "kubelet/pleg", "kubelet/kuberuntime",
			"kubelet/imagemanager",
			"kubelet/volumemanager", "kubelet/cgroup", "kubelet/admission", "kubelet/status", "kubelet/cri",
			"kubelet/model", "internal/pace"},
			"it removes what no pod needs, and creates nothing"},
		{"kubelet/podstats", []string{"kubelet/model"},
			"it counts what pods use; its callers decide by that"},
		{"kubelet/eviction", []string{"kubelet/podstats", "kubelet/meminfo", "kubelet/events", "kubelet/model"},
			"it decides by what pods use; its callers pass the functions that end pods"},
		{"kubelet/nodeshutdown", []string{"kubelet/model"},
			"it says when and in which order pods end; its callers pass the functions that end pods"},
		{"kubelet/allocation", []string{"kubelet/cgroup", "kubelet/jsonfile", "kubelet/model"},
			"it keeps decisions about resources; the packages that make and apply decisions import it"},
		{"kubelet/meminfo", nil,
			"one reader of the machine's memory, for every package that needs its size"},
		{"kubelet/jsonfile", nil,
			"how a value is kept on the disk does not depend on the value"},
		{"kubelet/nodelock", nil,
			"the lock is taken before any other part is made"},
		{"kubelet/userns", []string{"kubelet/jsonfile"},
			"the ids of a pod depend only on whether the pod exists"},
		{"kubelet/model", nil,
			"the types that all packages share depend on none of them"},
		{"kubelet/model/modeltest", nil,
			"fixtures depend on nothing that they test"},
	}
}

// podRules are for the parts of the kubelet core that read, make and watch pods.
func podRules() []Rule {
	return []Rule{
		{"kubelet/manifest", []string{"kubelet/model", "kubelet/fieldcheck", "kubelet/volumekinds",
			"internal/yamldoc"},
			"reading and validating a manifest is pure"},
		{"kubelet/podconfig", []string{"kubelet/manifest", "kubelet/volumekinds", "kubelet/jsonfile", "kubelet/model"},
			"sources give the desired pods and do not depend on the running ones; the API server is one source among " +
				"others"},
		{"kubelet/grants", []string{"kubelet/jsonfile", "kubelet/model"},
			"it records what belongs to one container alone, devices and CPUs alike"},
		{"kubelet/devicemanager", []string{"kubelet/grants", "kubelet/jsonfile", "kubelet/model"},
			"plugins are other processes; pods are known by their ids and limits"},
		{"kubelet/cpumanager", []string{"kubelet/grants", "kubelet/jsonfile", "kubelet/model"},
			"it knows the machine's CPUs, and sees containers through CRI"},
		{"kubelet/devicemanager/devicemanagertest", []string{"internal/testutil"},
			"a plugin knows the kubelet by its socket alone"},
		{"kubelet/podconfig/podconfigtest", []string{"kubelet/podconfig", "internal/testutil"},
			"tests of a source check only the pods that the source gives"},
		{"kubelet/cri", []string{"kubelet/model", "kubelet/podlogs"},
			"it reads the runtime for all other packages"},
		{"kubelet/events", []string{"kubelet/model"},
			"all packages record events, so it can import none of them"},
		{"kubelet/fieldcheck", nil,
			"a field is validated in the same way in every object that has it"},
		{"kubelet/volumekinds", []string{"kubelet/fieldcheck", "kubelet/model"},
			"a kind says how its volume is made, and gets the host's directories through an interface"},
		{"kubelet/volumemanager", []string{"kubelet/model", "kubelet/volumekinds"},
			"volumes are files on the host, made before any container"},
		{"kubelet/cgroup", []string{"internal/hugepages", "kubelet/meminfo", "kubelet/model"},
			"cgroups are the kernel's files; the runtime gets only their names"},
		{"kubelet/podspec", []string{"kubelet/model", "kubelet/volumekinds", "kubelet/volumemanager", "kubelet/cgroup",
			"kubelet/userns", "kubelet/hostsfile", "internal/bounded"},
			"configurations are made from the pod and what is on disk; nothing is started"},
		{"kubelet/hostsfile", []string{"kubelet/model"},
			"how the file is written does not depend on its lines"},
		{"kubelet/backoff", nil,
			"it needs a clock and a count only"},
		{"kubelet/imagemanager", []string{"kubelet/model", "kubelet/backoff", "kubelet/jsonfile"},
			"pulling needs an image service and a policy"},
		{"kubelet/httpget", []string{"kubelet/model"},
			"it only makes the request; its callers decide what the answer means"},
		{"kubelet/kuberuntime", []string{"kubelet/model", "kubelet/allocation", "kubelet/podspec",
			"kubelet/imagemanager", "kubelet/events", "kubelet/cri", "kubelet/backoff", "kubelet/httpget"},
			"it acts on one pod at a time; the workers decide on which one and when"},
		{"kubelet/pleg", []string{"kubelet/model", "kubelet/cri"},
			"it reports what changed in the runtime and acts on nothing"},
		{"kubelet/podworkers", []string{"kubelet/model"},
			"it orders the steps of a pod and does none of them"},
		{"kubelet/prober", []string{"kubelet/httpget", "kubelet/model"},
			"probes give results; other packages act on them"},
		{"kubelet/status", []string{"kubelet/model"},
			"a pod's status is a pure function of its spec and its observed state"},
		{"kubelet/metrics", []string{"kubelet/podworkers", "kubelet/prober"},
			"it measures by wrapping interfaces: no part knows that it is measured"},
		{"kubelet/nodeapi", []string{"internal/linger", "kubelet/model", "kubelet/podlogs", "kubelet/podstats",
			"kubelet/volumekinds"},
			"it declares the interfaces it needs, so that it can do no more than their methods"},
		{"kubelet/admission", []string{"kubelet/manifest", "kubelet/status", "kubelet/events", "kubelet/model"},
			"it decides by the manifest, the node and its pods; it shows a rejection and ends nothing"},
		{"kubelet/podlogs", nil,
			"a log is a file in a standard format"},
		{"cmd/kubelet-core/play", []string{"kubelet", "kubelet/manifest", "kubelet/model", "kubelet/podlogs",
			"kubelet/hostsfile", "kubelet/nodelock", "internal/sdnotify", "internal/yamldoc"},
			"it runs a kubelet core and knows no runtime"},
		{"cmd/kubelet-core/generate", []string{"docker"},
			"it reads containers of Docker Engine; all it shares with the code that runs pods is their manifests"},
		{"cmd/kubelet-core/detach", nil,
			"a process in the background is the program with the same arguments"},
		{"cmd/kubelet-core/bootunit", nil,
			"a service is the program with the same arguments"},
		{"cmd/kubelet-core/check", []string{"internal/checklist", "kubelet", "kubelet/cgroup", "kubelet/cri",
			"kubelet/nodelock", "kubelet/podconfig"},
			"it checks the node as the kubelet core would, and starts no part of the kubelet core"},
		{"cmd/kubelet-core/configfile", []string{"internal/yamldoc"},
			"a file only sets flags, which mean the same on the command line"},
		{"cmd/kubelet-core/client", []string{"kubelet/model", "kubelet/volumekinds", "kubelet/podlogs"},
			"the commands read what the read-only endpoint, the runtime and the log files show"},
	}
}

// apiServerRules are for the part of the kubelet core that talks to an API server.
func apiServerRules() []Rule {
	return []Rule{
		{"kubelet/apiserver", []string{"kubelet/apiserver/connect", "kubelet/apiserver/mirrorpod",
			"kubelet/apiserver/node", "kubelet/apiserver/objects", "kubelet/apiserver/podsource",
			"kubelet/apiserver/report", "kubelet/apiserver/review", "kubelet/apiserver/services",
			"kubelet/apiserver/runtimeclass", "kubelet/apiserver/token", "kubelet/volumekinds", "kubelet/status",
			"kubelet/events", "kubelet/cri", "kubelet/model"},
			"nothing else depends on an API server; the rest of the kubelet uses it through a small interface"},
		{"kubelet/apiserver/reflector", nil,
			"list and watch work in the same way for all kinds of objects"},
		{"kubelet/apiserver/podsource", []string{"kubelet/apiserver/reflector", "kubelet/manifest", "kubelet/model"},
			"it passes pods to a function, so that it does not depend on what runs them"},
		{"kubelet/apiserver/objects", []string{"kubelet/model", "kubelet/volumekinds", "kubelet/apiserver/reflector"},
			"it serves objects to volumes, and depends on neither the sources nor the running pods"},
		{"kubelet/apiserver/connect", nil,
			"connecting to an API server does not depend on the requests that follow"},
		{"kubelet/apiserver/node", []string{"internal/hugepages", "kubelet/apiserver/connect", "kubelet/meminfo"},
			"it reports what functions return, so that the node's lease depends on no other package"},
		{"kubelet/apiserver/review", nil,
			"it sends reviews of clients to the API server and serves no clients itself"},
		{"kubelet/apiserver/token", []string{"kubelet/model"},
			"a token is requested for a pod, whichever volume it is for"},
		{"kubelet/apiserver/services", []string{"kubelet/apiserver/reflector", "kubelet/model"},
			"variables are made of the API server's services; its caller chooses the pod"},
		{"kubelet/apiserver/runtimeclass", nil,
			"a class is an object of the API server; its callers know the pods"},
		{"kubelet/apiserver/report", []string{"kubelet/model", "kubelet/status"},
			"it sends statuses and events that other packages made; of a pod it needs only whether the pod has " +
				"finished"},
		{"kubelet/apiserver/mirrorpod", []string{"kubelet/model"},
			"mirror pods follow the static pods, not the running containers"},
	}
}

// Ban forbids an import beyond the table.
type Ban struct {
	// Import is an import path; the ban covers every package below it as well.
	Import string
	// Except lists the packages below Module that may import it, in the notation of Rule.Path.
	Except []string
	// Indirect extends the ban to imports of imports, and to tests.
	Indirect bool
	// Why says what would go wrong.
	Why string
}

// Bans lists the imports that are forbidden whatever the table says.
func Bans() []Ban {
	return []Ban{
		{Import: "github.com/moby/moby/client", Except: []string{"docker", "test/..."},
			Why: "every engine call goes through docker.Engine: a context, typed errors and version gates are " +
				"guaranteed only there"},
		{Import: "github.com/sirupsen/logrus", Except: []string{"cmd/criadapter", "cmd/kubelet-core/command",
			"test/..."},
			Why: "lines are written through the context's logger (log.G of github.com/containerd/log), so that they " +
				"say which request they belong to; a program configures it"},
		{Import: "github.com/docker/docker", Indirect: true,
			Why: "it is the old module of the client; two sets of API types would have to be converted"},
		{Import: "os/exec", Except: []string{"cni", "cmd/criadapter/bundle", "cmd/criadapter/check",
			"cmd/criadapter-oci", "cmd/kubelet-core/detach", "internal/testutil", "ociexec", "packaging/release",
			"test/..."},
			Why: "the server runs only CNI plugins and the OCI runtime: port-forward and the rest need no socat, " +
				"nsenter or other program of the host. Other exceptions: a test and a detached play start their own " +
				"program again, and criadapter check and debug bundle start programs such as iptables-save"},
		{Import: "github.com/spf13/cobra/doc", Except: []string{"packaging/manuals"},
			Why: "a program that runs on a node does not make man pages"},
		{Import: "k8s.io/kubernetes", Indirect: true,
			Why: "it is not a library: it drags a replace list and a hundred megabytes behind it; tests that need it " +
				"have a go.mod of their own"},
		{Import: Module + "/kubelet", Except: []string{"cmd/kubelet-core", "cmd/kubelet-core/...", "kubelet",
			"kubelet/...", "test/..."},
			Why: "the server must not grow a kubelet inside"},
		{Import: Module + "/test", Except: []string{"test/..."},
			Why: "code for tests must not ship"},
		{Import: Module + "/internal/testutil", Except: []string{"docker/dockertest",
			"kubelet/devicemanager/devicemanagertest", "kubelet/podconfig/podconfigtest", "test/..."},
			Why: "helpers of tests must not ship"},
		{Import: Module + "/docker/dockertest", Except: []string{"test/..."},
			Why: "a fake engine must not ship"},
		{Import: Module + "/kubelet/devicemanager/devicemanagertest", Except: []string{"test/..."},
			Why: "a plugin without devices must not ship"},
		{Import: Module + "/kubelet/podconfig/podconfigtest", Except: []string{"test/..."},
			Why: "fixtures of tests must not ship"},
		{Import: Module + "/kubelet/model/modeltest", Except: []string{"test/..."},
			Why: "fixtures of tests must not ship"},
	}
}
