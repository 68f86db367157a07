package deps

import "slices"

// Module is the import path that all of ours begin with.
const Module = "github.com/criadapter/criadapter"

// Room is a package and what it may import of ours. Everything that it does not list is banned, for the reason Why.
type Room struct {
	// Path is the import path below Module's. A path that ends in /... stands for every package below it.
	Path string
	// May lists the rooms it may import; anything stands for all of them.
	May []string
	// Why says why it may not import more.
	Why string
}

// anything in Room.May allows every room that no Ban forbids.
const anything = "*"

// Rooms is the import table. A package that it does not name must not exist.
func Rooms() []Room {
	return slices.Concat(serverRooms(), kubeletRooms(), []Room{
		{"test/...", []string{anything},
			"tests look at everything"},
	})
}

// serverRooms are those of criadapter.
func serverRooms() []Room {
	return []Room{
		{"cmd/criadapter", []string{anything},
			"the program wires everything that serves CRI"},
		{"server", []string{"sandbox", "container", "image", "streaming", "state", "stats", "docker", "cni"},
			"the CRI surface validates, delegates and maps errors; records, namespaces and log files are the services' business"},
		{"sandbox", []string{"state", "docker", "docker/translate", "cni", "netns", "checkpoint", "pause", "keylock"},
			"it declares the interfaces it needs of containers and images, so that each is tested alone and no cycle can grow"},
		{"container", []string{"state", "logs", "docker", "docker/translate", "checkpoint", "keylock"},
			"a container knows its pod from the mirror alone; networks and images reach it through interfaces it declares"},
		{"image", []string{"docker", "pause"},
			"images exist without pods: they need no state but the engine's"},
		{"image/volume", []string{"docker"},
			"the files of images are the same whoever mounts them; which container does is the engine's list's to say"},
		{"streaming", []string{"netns"},
			"it serves HTTP over a small interface of its own, so that it runs in front of any runtime"},
		{"state", []string{"docker", "docker/translate", "checkpoint"},
			"the mirror is read by all services, so it can call none of them; log draining is a hook"},
		{"stats", []string{"state", "netns"},
			"figures come from the kernel's files: the engine's stats endpoint takes seconds and must not be reachable"},
		{"logs", []string{"docker", "checkpoint"},
			"followers are told what to do by containers; reading the mirror would make a circle of waiting"},
		{"docker", nil,
			"the engine room is the bottom: it knows the engine and nothing of CRI or of us"},
		{"docker/translate", []string{"docker"},
			"translation is pure: what it needs to know is in its arguments"},
		{"docker/dockertest", []string{"docker"},
			"the in-memory engine stands in for the real one alone, or tests would test their own assumptions"},
		{"cni", nil,
			"networks take a namespace's path, whoever made it"},
		{"checkpoint", nil,
			"what is on disk must be readable whatever the other rooms become"},
		{"netns", nil,
			"namespaces are the kernel's, usable by pods, figures and streams alike"},
		{"pause", nil,
			"the sandbox image is bytes, the same on each machine"},
		{"config", nil,
			"configuration is plain data that cmd hands out; a room that read it could not be used without all flags"},
		{"keylock", nil,
			"a lock knows no more than keys"},
		{"telemetry", nil,
			"metrics and traces reach the rooms as functions that each declares, so that none depends on who counts"},
	}
}

// kubeletRooms are those of the kubelet core.
func kubeletRooms() []Room {
	return []Room{
		{"cmd/kubelet-core", []string{"kubelet", "kubelet/client", "kubelet/model"},
			"the kubelet's program works against any CRI socket, so it cannot know our server's insides"},
		{"kubelet", []string{"kubelet/config", "kubelet/container", "kubelet/cri", "kubelet/events", "kubelet/images", "kubelet/manifest", "kubelet/model",
			"kubelet/backoff", "kubelet/pleg", "kubelet/podspec", "kubelet/podworkers", "kubelet/prober", "kubelet/server", "kubelet/status",
			"kubelet/volume", "kubelet/cgroup", "kubelet/report", "kubelet/mirror", "kubelet/cluster", "kubelet/token", "kubelet/objects", "kubelet/admission", "kubelet/node",
			"kubelet/services"},
			"the kubelet core wires its own parts and speaks CRI only, or it would not show what a real kubelet sees"},
		{"kubelet/model", nil,
			"the words that all parts share depend on none of them"},
		{"kubelet/model/modeltest", nil,
			"what tests are made of depends on nothing that they try"},
		{"kubelet/manifest", []string{"kubelet/model"},
			"reading and judging a manifest is pure"},
		{"kubelet/follow", nil,
			"keeping up with a server's objects is the same whatever they are"},
		{"kubelet/config", []string{"kubelet/manifest", "kubelet/model", "kubelet/follow"},
			"sources know what is wanted, not what runs"},
		{"kubelet/cri", []string{"kubelet/model"},
			"it reads the runtime for all others"},
		{"kubelet/events", []string{"kubelet/model"},
			"events are told by all parts, so it can ask none"},
		{"kubelet/volume", []string{"kubelet/model"},
			"volumes are files on the host, made before any container is"},
		{"kubelet/objects", []string{"kubelet/model", "kubelet/volume", "kubelet/follow"},
			"it answers what volumes ask for, and knows neither sources nor what runs"},
		{"kubelet/cgroup", []string{"kubelet/model"},
			"cgroups are the kernel's files; the runtime is only told their names"},
		{"kubelet/podspec", []string{"kubelet/model", "kubelet/volume", "kubelet/cgroup"},
			"configurations are made from the pod and what is on disk; nothing is started"},
		{"kubelet/backoff", nil,
			"a clock and a count"},
		{"kubelet/images", []string{"kubelet/model", "kubelet/backoff"},
			"pulling needs an image service and a policy"},
		{"kubelet/container", []string{"kubelet/model", "kubelet/podspec", "kubelet/images", "kubelet/events", "kubelet/cri", "kubelet/backoff"},
			"it acts on one pod at a time; which, and when, is the workers' business"},
		{"kubelet/pleg", []string{"kubelet/model", "kubelet/cri"},
			"it tells what changed in the runtime and acts on nothing"},
		{"kubelet/podworkers", []string{"kubelet/model"},
			"order among the steps of a pod is kept apart from what the steps do"},
		{"kubelet/prober", []string{"kubelet/model"},
			"probes give results; what follows from them is decided elsewhere"},
		{"kubelet/status", []string{"kubelet/model"},
			"a pod's status is a pure function of what is wanted and seen"},
		{"kubelet/server", []string{"kubelet/model", "kubelet/logs"},
			"it asks through interfaces of its own, so that it can do no more than what they name"},
		{"kubelet/cluster", nil,
			"connecting to an API server is the same whatever is asked of it"},
		{"kubelet/node", []string{"kubelet/cluster"},
			"it reports what functions tell it, so that the node's lease does not hang on any other part"},
		{"kubelet/admission", []string{"kubelet/manifest", "kubelet/model"},
			"whether a node takes a pod is a pure function of both and of the pods that it has"},
		{"kubelet/token", []string{"kubelet/model"},
			"a token is asked for by pod; which volume it ends up in is not its business"},
		{"kubelet/logs", nil,
			"a log is a file in a known format, whoever reads it"},
		{"kubelet/services", []string{"kubelet/follow", "kubelet/model"},
			"variables are made of what the server has, whatever becomes of them"},
		{"kubelet/client", []string{"kubelet/model", "kubelet/logs"},
			"the person's commands read what the server shows"},
		{"kubelet/report", []string{"kubelet/model", "kubelet/status"},
			"it tells the API server what others found out, and asks none of them for more than whether a pod has finished"},
		{"kubelet/report/apitest", nil,
			"the API server in memory stands in for the real one, so it knows nothing of what is tested with it"},
		{"kubelet/mirror", []string{"kubelet/model"},
			"mirror pods follow the static pods; what runs is not their business"},
	}
}

// Ban forbids an import beyond the table.
type Ban struct {
	// Import is an import path; the ban covers every package below it as well.
	Import string
	// Except lists the packages below Module that may import it, in the notation of Room.Path.
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
			Why: "every engine call goes through docker.Engine: a context, typed errors and version gates are guaranteed only there"},
		{Import: "github.com/docker/docker", Indirect: true,
			Why: "the frozen home of the client; two sets of API types would have to be converted"},
		{Import: "os/exec", Except: []string{"cni", "test/..."},
			Why: "nothing but CNI plugins is run: port-forward and the rest need no socat, nsenter or other program of the host"},
		{Import: "k8s.io/kubernetes", Indirect: true,
			Why: "it is no library: it drags a replace list and a hundred megabytes behind it; tests that need it have a go.mod of their own"},
		{Import: Module + "/kubelet", Except: []string{"cmd/kubelet-core", "kubelet", "kubelet/...", "test/..."},
			Why: "the server must not grow a kubelet inside"},
		{Import: Module + "/test", Except: []string{"test/..."},
			Why: "what tests need must not ship"},
		{Import: Module + "/docker/dockertest", Except: []string{"test/..."},
			Why: "a fake engine must not ship"},
		{Import: Module + "/kubelet/report/apitest", Except: []string{"test/..."},
			Why: "a fake API server must not ship"},
		{Import: Module + "/kubelet/model/modeltest", Except: []string{"test/..."},
			Why: "what tests are made of must not ship"},
	}
}
