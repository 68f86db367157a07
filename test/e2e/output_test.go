package e2e

// What crictl prints with -o json, as far as the tests read it.

type metadata struct {
	Name, Namespace, UID string
	Attempt              int
}

// nodeInfo is `crictl info`.
type nodeInfo struct {
	Status struct {
		Conditions []struct {
			Type            string
			Status          bool
			Reason, Message string
		}
	}
}

// imageList is `crictl images`.
type imageList struct{ Images []imageEntry }

type imageEntry struct {
	ID          string
	RepoTags    []string
	RepoDigests []string
	Size        string
}

// imageStatus is `crictl inspecti`.
type imageStatus struct{ Status imageEntry }

// podList is `crictl pods`.
type podList struct{ Items []podEntry }

type podEntry struct {
	ID       string
	Metadata metadata
	State    string
}

// podStatus is `crictl inspectp`.
type podStatus struct {
	Status struct {
		ID          string
		Metadata    metadata
		State       string
		Network     struct{ IP string }
		Labels      map[string]string
		Annotations map[string]string
	}
	Info map[string]any
}

// containerList is `crictl ps`.
type containerList struct{ Containers []containerEntry }

type containerEntry struct {
	ID           string
	PodSandboxID string
	ImageID      string
	State        string
}

// containerStatus is `crictl inspect`.
type containerStatus struct {
	Status struct {
		ID                               string
		Metadata                         metadata
		State                            string
		CreatedAt, StartedAt, FinishedAt string
		ExitCode                         int
		Image                            struct{ Image string }
		ImageID, ImageRef                string
		Reason                           string
		LogPath                          string
		Labels                           map[string]string
	}
	Info map[string]any
}
