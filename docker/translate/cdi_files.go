package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	ocispec "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// ReadCDIDevices implements ReadCDI. It reads the specifications of devices in /etc/cdi and /var/run/cdi, where vendors
// and the kubelet's device plugins write them. It reads them anew at each call, because a plugin may change them at any
// time.
func ReadCDIDevices(devices []string) (CDIEdits, error) {
	return readCDI(cdi.DefaultSpecDirs, devices)
}

func readCDI(dirs, devices []string) (CDIEdits, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return CDIEdits{}, err
	}
	var spec ocispec.Spec
	unknown, err := cache.InjectDevices(&spec, devices...)
	if len(unknown) > 0 {
		return CDIEdits{}, fmt.Errorf("no specification in %s has the CDI device %s%s", strings.Join(dirs, " or "),
			strings.Join(unknown, ", "), damaged(cache))
	}
	if err != nil {
		return CDIEdits{}, fmt.Errorf("CDI device %s: %w", strings.Join(devices, ", "), err)
	}
	return editsOf(spec)
}

// damaged describes the specifications that cannot be read. Any of them may define the missing device.
func damaged(cache *cdi.Cache) string {
	var text string
	for path, errs := range cache.GetErrors() {
		text += fmt.Sprintf("; %s cannot be used: %v", path, errors.Join(errs...))
	}
	return text
}

// editsOf returns the edits in spec, which has nothing but edits.
func editsOf(spec ocispec.Spec) (CDIEdits, error) {
	edits := CDIEdits{hooks: hooksOf(spec.Hooks)}
	if spec.Process != nil {
		edits.env, edits.groups = spec.Process.Env, spec.Process.User.AdditionalGids
	}
	for _, m := range spec.Mounts {
		edits.mounts = append(edits.mounts,
			ocinote.Mount{Destination: m.Destination, Type: m.Type, Source: m.Source, Options: m.Options})
	}
	linux := spec.Linux
	if linux == nil {
		return edits, nil
	}
	if len(linux.NetDevices) > 0 {
		return CDIEdits{}, errors.New(
			"the CDI device moves a network device into the container (netDevices), which only CNI plugins may do here")
	}
	for _, d := range linux.Devices {
		edits.devices = append(edits.devices, ocinote.Device{
			Path: d.Path, Type: d.Type, Major: d.Major, Minor: d.Minor, Access: accessOf(d, linux.Resources),
			FileMode: modeOf(d.FileMode), UID: d.UID, GID: d.GID,
		})
	}
	if linux.IntelRdt == nil {
		return edits, nil
	}
	var err error
	edits.intelRDT, err = json.Marshal(linux.IntelRdt)
	return edits, err
}

// accessOf returns the access to a device that the cgroup allows, such as "rw". It returns "" without a rule for the
// device.
func accessOf(d ocispec.LinuxDevice, resources *ocispec.LinuxResources) string {
	if resources == nil {
		return ""
	}
	for _, rule := range resources.Devices {
		if rule.Type == d.Type && rule.Major != nil && rule.Minor != nil && *rule.Major == d.Major &&
			*rule.Minor == d.Minor {
			return rule.Access
		}
	}
	return ""
}

func modeOf(mode *os.FileMode) *uint32 {
	if mode == nil {
		return nil
	}
	bits := uint32(mode.Perm())
	return &bits
}

func hooksOf(hooks *ocispec.Hooks) map[string][]ocinote.Hook {
	if hooks == nil {
		return nil
	}
	out := map[string][]ocinote.Hook{}
	for when, list := range map[string][]ocispec.Hook{
		//lint:ignore SA1019 specifications may still have them
		"prestart":      hooks.Prestart,
		"createRuntime": hooks.CreateRuntime, "createContainer": hooks.CreateContainer,
		"startContainer": hooks.StartContainer,
		"poststart":      hooks.Poststart, "poststop": hooks.Poststop,
	} {
		for _, hook := range list {
			out[when] = append(out[when],
				ocinote.Hook{Path: hook.Path, Args: hook.Args, Env: hook.Env, Timeout: hook.Timeout})
		}
	}
	return out
}
