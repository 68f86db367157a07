package cni

import (
	"context"
	"slices"
)

// Plugin is one program that the current configuration names.
type Plugin struct {
	// Type is its name in the configuration.
	Type string
	// Path is the path of its program, empty if it was not found.
	Path string
	// Versions are the versions of the CNI specification that it reports.
	Versions []string
	// Err says why it was not found or did not answer.
	Err error
}

// Plugins asks each plugin of the current configuration, address managers included, for its versions. An address
// manager that is not a program of its own, such as Calico's, is missing from the list. Without a configuration the
// list is empty.
func (n *Network) Plugins(ctx context.Context) []Plugin {
	snap := n.current.Load()
	if snap.list == nil {
		return nil
	}
	var plugins []Plugin
	for _, p := range snap.list.Plugins {
		plugins = append(plugins, n.askVersion(ctx, p.Network.Type))
		if ipam := p.Network.IPAM.Type; ipam != "" {
			if found := n.askVersion(ctx, ipam); found.Path != "" {
				plugins = append(plugins, found)
			}
		}
	}
	return plugins
}

func (n *Network) askVersion(ctx context.Context, plugin string) Plugin {
	answer := Plugin{Type: plugin}
	if answer.Path, answer.Err = n.exec.FindInPath(plugin, n.opts.BinDirs); answer.Err != nil {
		return answer
	}
	info, err := n.cni.GetVersionInfo(ctx, plugin)
	if err != nil {
		answer.Err = err
		return answer
	}
	answer.Versions = slices.Clone(info.SupportedVersions())
	return answer
}
