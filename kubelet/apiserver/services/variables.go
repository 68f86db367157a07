package services

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// hasVariables reports whether a service has variables: it has an address. Nil has none.
func hasVariables(service *v1.Service) bool {
	return service != nil && service.Spec.ClusterIP != "" && service.Spec.ClusterIP != v1.ClusterIPNone &&
		len(service.Spec.Ports) > 0
}

// variables adds the variables of one service: Kubernetes' variables, and the variables of Docker's links, which older
// programs read.
func variables(env map[string]string, service *v1.Service) {
	if !hasVariables(service) {
		return
	}
	host, name := service.Spec.ClusterIP, variable(service.Name)
	env[name+"_SERVICE_HOST"] = host
	env[name+"_SERVICE_PORT"] = port(&service.Spec.Ports[0])
	env[name+"_PORT"] = url(host, &service.Spec.Ports[0])
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		if p.Name != "" {
			env[name+"_SERVICE_PORT_"+variable(p.Name)] = port(p)
		}
		prefix := name + "_PORT_" + port(p) + "_" + strings.ToUpper(protocol(p))
		env[prefix] = url(host, p)
		env[prefix+"_PROTO"] = protocol(p)
		env[prefix+"_PORT"] = port(p)
		env[prefix+"_ADDR"] = host
	}
}

// variable converts a DNS label to a variable's name.
func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

func port(p *v1.ServicePort) string { return strconv.Itoa(int(p.Port)) }

func protocol(p *v1.ServicePort) string {
	return strings.ToLower(string(cmp.Or(p.Protocol, v1.ProtocolTCP)))
}

func url(host string, p *v1.ServicePort) string {
	return protocol(p) + "://" + net.JoinHostPort(host, port(p))
}
