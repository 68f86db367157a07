package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/checklist"
)

// socketMode has the permission bits of a socket for users other than its owner and group.
const socketMode = 0o007

func judgeSockets(j *checklist.Group, f facts) {
	const rights = "run criadapter as root; in a container, with --privileged"
	switch {
	case slices.Equal(f.Missing, []string{sysResource}):
		j.Warn("rights", rights, "this process lacks %s: a resize in place leaves a pod's oom_score_adj as it was",
			sysResource)
	case len(f.Missing) > 0:
		j.Fail("rights", rights, "this process lacks %s", strings.Join(f.Missing, ", "))
	default:
		j.OK("rights", "root, with all capabilities that are needed")
	}
	switch cri := f.CRI; {
	case cri.Path == "":
		j.OK("CRI socket", "passed on by systemd")
	case cri.Err != nil:
		j.Fail("CRI socket", "remove what is there, or choose another --container-runtime-endpoint", "%s: %v", cri.Path,
			cri.Err)
	case cri.AskErr != nil:
		j.Warn("CRI socket", "check again when the node is less busy, and look at the log of the server there",
			"%s answers on %s, but does not report its status: %v", cri.Answers, cri.Path, cri.AskErr)
	case cri.Answers != "" && !strings.HasPrefix(cri.Answers, "criadapter "):
		j.Fail("CRI socket", "stop it, or choose another --container-runtime-endpoint", "%s answers on %s", cri.Answers,
			cri.Path)
	case cri.Answers != "" && cri.Mode&0o077 != 0:
		j.Warn("CRI socket", "chmod 0600 "+cri.Path+": a user who can connect is root on this node",
			"%s answers on %s, whose mode is %#o", cri.Answers, cri.Path, cri.Mode)
	case cri.Answers != "":
		j.OK("CRI socket", "%s answers on %s", cri.Answers, cri.Path)
	default:
		j.OK("CRI socket", "%s is free: criadapter does not run", cri.Path)
	}
	if s := f.EngineSocket; s.Mode&socketMode != 0 {
		j.Warn("engine's socket", "chmod 0660 "+s.Path+": a user who can connect is root on this node",
			"%s has mode %#o", s.Path, s.Mode)
	}
	for _, other := range f.Others {
		if other.Endpoint == "unix://"+engineContainerd {
			j.OK("other runtime", "%s answers on %s, which Docker Engine uses by default: keep it running", other.Name,
				other.Endpoint)
			continue
		}
		do := "stop it (systemctl disable --now), unless it is meant to serve another kubelet"
		switch {
		case other.AskErr != nil && strings.HasPrefix(other.Name, "docker "): // criadapter also has this name
			do = "check again when the node is less busy, and look at the log of the server there"
		case strings.HasPrefix(other.Name, "docker "): // cri-dockerd's name
			do = "stop it: both would manage the same containers; criadapter migrate shows what can be taken over"
		}
		j.Warn("other runtime", do, "%s answers on %s", other.Name, other.Endpoint)
	}
	if len(f.Others) == 0 {
		j.OK("other runtimes", "no other CRI server answers")
	}
}

// Free shares of a disk, in percent. Below lowDisk the kubelet evicts pods by default. Below fullDisk and lowInodes
// writes begin to fail.
const (
	lowDisk   = 15
	fullDisk  = 5
	lowInodes = 5
)

func judgeDisks(j *checklist.Group, f facts) {
	for _, d := range f.Disks {
		name, free := d.Use, d.FreeSpace()
		switch {
		case d.Err != nil:
			j.Fail(name, "make it, or choose another directory", "%v", d.Err)
		case free < fullDisk:
			j.Fail(name, "make room: docker image prune, old logs in /var/log/pods, or a larger disk", "%s", d.Space())
		case d.FreeFiles() < lowInodes:
			j.Fail(name, "remove unused images and old builds, which have many small files", "%s: %d of %d inodes free",
				d.Path, d.FreeInodes, d.Inodes)
		case free < lowDisk:
			j.Warn(name, "make room before the kubelet evicts pods (imagefs.available<15%)", "%s", d.Space())
		case d.Memory:
			j.Warn(name, "put it on a disk: its content is lost when the machine restarts",
				"%s is in memory", d.Path)
		default:
			j.OK(name, "%s", d.Space())
		}
	}
}

func judgeKernel(j *checklist.Group, f facts) {
	k := f.Kernel
	if SupportedKernel(k.Release) {
		j.OK("kernel", "Linux %s", k.Release)
	} else {
		j.Warn("kernel", "update it: "+OldestKernel()+" is the oldest supported release, as for kubeadm",
			"Linux %s", k.Release)
	}
	there := func(name string, is bool, yes, no string) {
		if is {
			j.OK(name, "%s", yes)
		} else {
			j.OK(name, "%s", no)
		}
	}
	there("user namespaces", k.MaxUserNamespaces > 0, "yes", "no (user.max_user_namespaces is 0)")
	there("idmapped mounts", atLeast(k.Release, 5, 12), "yes", "no (Linux 5.12 has them)")
	if f.EngineErr == nil {
		rro := slices.Contains(f.Engine.RecursiveReadOnly, f.Engine.DefaultRuntime)
		no := "no: mounts that ask for it are refused (Docker Engine 25, Linux 5.12 and runc 1.1 have it)"
		if f.OCIRuntime.Name != "" && f.OCIRuntimeErr == nil && atLeast(k.Release, 5, 12) {
			no = "by criadapter-oci, if " + f.Engine.DefaultRuntime + " can (runc 1.1)"
		}
		there("recursive read-only", rro, "yes, with "+f.Engine.DefaultRuntime, no)
		there("swap accounting", f.Engine.SwapLimit, "yes", "no: memory.swap limits have no effect")
	}
	if k.Seccomp && (f.Engine.Seccomp || f.EngineErr != nil) {
		j.OK("seccomp", "yes")
	} else {
		j.Warn("seccomp", "use a kernel with CONFIG_SECCOMP_FILTER and an engine built with seccomp",
			"no: containers may use all system calls")
	}
	switch {
	case k.AppArmor:
		j.OK("AppArmor", "yes")
	case k.SELinux && f.EngineErr == nil && !f.Engine.SELinux:
		j.Warn("SELinux", "set selinux-enabled to true in daemon.json, and restart the engine",
			"the engine does not use it: containers are not confined, and seLinuxOptions of pods have no effect")
	case k.SELinux:
		j.OK("SELinux", "yes")
	default:
		j.OK("AppArmor", "no: pods that name a profile are refused")
	}
	there("pressure (PSI)", k.PSI, "yes", "no: pressure is not reported (boot with psi=1)")
	there("CRIU", k.CRIU, "yes", "no: containers cannot be checkpointed")
}

// atLeast compares a release such as "5.10.0-13-amd64" with a version.
func atLeast(release string, major, minor int) bool {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return false
	}
	gotMajor, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	digits := strings.IndexFunc(parts[1]+" ", func(r rune) bool { return r < '0' || r > '9' })
	gotMinor, err := strconv.Atoi(parts[1][:digits])
	return err == nil && (gotMajor > major || gotMajor == major && gotMinor >= minor)
}

func judgeLimits(j *checklist.Group, f facts) {
	for _, limit := range []struct {
		name, sysctl   string
		value, least   int64
		whatHappensNow string
	}{
		{"inotify instances", "fs.inotify.max_user_instances", f.Kernel.InotifyInstances, 128,
			"logs and configurations are polled instead of watched"},
		{"inotify watches", "fs.inotify.max_user_watches", f.Kernel.InotifyWatches, 8192,
			"logs are polled instead of watched"},
		{"processes", "kernel.pid_max", f.Kernel.PIDMax, 32768, "a busy node cannot start processes any more"},
		{"open files", "fs.file-max", f.Kernel.FileMax, 65536, "a busy node cannot open files any more"},
	} {
		switch {
		case limit.value == 0:
			j.OK(limit.name, "%s is not known", limit.sysctl)
		case limit.value < limit.least:
			do := fmt.Sprintf("sysctl -w %s=%d, and in /etc/sysctl.d for good", limit.sysctl, limit.least*4)
			j.Warn(limit.name, do, "%s is %d: %s", limit.sysctl, limit.value, limit.whatHappensNow)
		default:
			j.OK(limit.name, "%s is %d", limit.sysctl, limit.value)
		}
	}
	for _, limit := range f.Engine.Limits {
		if limit.Name == "nofile" && limit.Hard != docker.Unlimited && limit.Hard < 65536 {
			j.Warn("containers' files", "set LimitNOFILE=1048576 in the engine's unit, and restart it",
				"a container may open %d files at most", limit.Hard)
		}
	}
}

func judgeLeftovers(j *checklist.Group, f facts) {
	l := f.Left
	if l.Unknown != nil {
		j.Warn("pods", "fix the cause, and check again", "not looked for: %v", l.Unknown)
	} else {
		const waits = "start criadapter: the kubelet then removes these pods, and criadapter releases the rest every " +
			"ten minutes"
		list(j, "network namespaces",
			"unmount and remove them, unless a criadapter with another root directory has their pods", l.Pins,
			"pinned for pods that are gone")
		if l.AttachmentsErr != nil {
			j.Warn("CNI attachments", "fix the directory, which criadapter needs as well", "they cannot be read: %v",
				l.AttachmentsErr)
		}
		if l.AttachmentsErr == nil || len(l.Attachments) > 0 {
			list(j, "CNI attachments", waits, l.Attachments, "kept for pods that are gone")
		}
		list(j, "records", waits, l.Records, "of pods that are gone")
		if l.LeasesErr != nil {
			j.Warn("addresses", "fix the directory, which host-local needs as well", "the leases cannot be read: %v",
				l.LeasesErr)
		}
		if l.LeasesErr == nil || len(l.Leases) > 0 {
			list(j, "addresses", "remove the files, if no other runtime on this node uses the network", l.Leases,
				"leased to pods that are gone")
		}
		if l.RulesErr == nil || len(l.Rules) > 0 {
			list(j, "host ports", "restart criadapter, or delete these rules (iptables-save -t nat | grep ID)", l.Rules,
				"forwarded to pods that are gone")
		}
	}
	if l.RulesErr != nil {
		j.Warn("host ports", "install iptables, which portmap needs as well", "the rules cannot be read: %v",
			l.RulesErr)
	}
	if l.QuarantineErr != nil {
		j.Warn("quarantine", "fix the directory, which criadapter needs as well", "it cannot be read: %v",
			l.QuarantineErr)
		return
	}
	list(j, "quarantine", "look at them, then remove them: the kubelet has replaced their pods, or stops them",
		l.Quarantined, "records that were corrupt")
}

// list adds a warning about things that are left behind, or an OK finding if there are none.
func list(j *checklist.Group, name, do string, things []string, what string) {
	if len(things) == 0 {
		j.OK(name, "none is left behind")
		return
	}
	const shown = 3
	text := strings.Join(things[:min(len(things), shown)], ", ")
	if len(things) > shown {
		text += fmt.Sprintf(" and %d more", len(things)-shown)
	}
	j.Of(things).Warn(name, do, "%d %s: %s", len(things), what, text)
}
