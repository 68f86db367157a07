package state

import "github.com/containerd/log"

// LogFields are the fields that name a pod in the log.
func (p *Pod) LogFields() log.Fields {
	fields := log.Fields{"podSandboxID": p.ID}
	if metadata := p.Meta.Config.GetMetadata(); metadata != nil {
		fields["pod"] = metadata.GetNamespace() + "/" + metadata.GetName()
	}
	return fields
}

// LogFields are the fields that name a container in the log.
func (c *Container) LogFields() log.Fields {
	fields := log.Fields{"containerID": c.ID, "podSandboxID": c.SandboxID}
	if metadata := c.Meta.Config.GetMetadata(); metadata != nil {
		fields["container"] = metadata.GetName()
	}
	return fields
}
