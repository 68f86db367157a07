package model

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ResolvePort returns the number of a port, which may be a name in the container.
func ResolvePort(port intstr.IntOrString, c *v1.Container) (int, error) {
	number := port.IntValue() // 0 for a name without digits
	if port.Type == intstr.String && c != nil {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %q is neither a port number nor the name of a port of the container", port.String())
	}
	return number, nil
}
