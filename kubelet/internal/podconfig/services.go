package podconfig

import (
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiService is the name of the service of the API server, in the namespace default. All containers
// have its variables.
const apiService = "kubernetes"

// serviceVariables returns the environment variables of the services of a pod's namespace, unless it
// has turned them off, and of the API server. It returns an error if a container cannot have them all.
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
func (b *Builder) serviceVariables(pod *corev1.Pod) (map[string]string, error) {
	variables, left := map[string]string{}, budget(maxExpanded)
	if b.Services == nil {
		return variables, nil
	}
	own := map[string]bool{}
	if links := pod.Spec.EnableServiceLinks; links == nil || *links {
		for service := range b.Services(pod.Namespace) {
			own[service.Name] = true
			if addVariables(variables, service, &left); left < 0 {
				return nil, left.err()
			}
		}
	}
	if own[apiService] {
		return variables, nil
	}
	for service := range b.Services(metav1.NamespaceDefault) {
		if service.Name == apiService {
			addVariables(variables, service, &left)
		}
	}
	return variables, left.err()
}

// addVariables adds the variables of a service that has an address, as long as there is something left.
func addVariables(variables map[string]string, service *corev1.Service, left *budget) {
	ip := service.Spec.ClusterIP
	if ip == "" || ip == corev1.ClusterIPNone || len(service.Spec.Ports) == 0 {
		return
	}
	add := func(name, value string) {
		if left.take(len(name) + len(value)) {
			variables[name] = value
		}
	}
	name := variableName(service.Name)
	add(name+"_SERVICE_HOST", ip)
	add(name+"_SERVICE_PORT", strconv.Itoa(int(service.Spec.Ports[0].Port)))
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		number := strconv.Itoa(int(port.Port))
		if port.Name != "" {
			add(name+"_SERVICE_PORT_"+variableName(port.Name), number)
		}
		protocol := string(corev1.ProtocolTCP)
		if port.Protocol != "" {
			protocol = string(port.Protocol)
		}
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, number)
		if i == 0 {
			add(name+"_PORT", url)
		}
		prefix := name + "_PORT_" + number + "_" + strings.ToUpper(protocol)
		add(prefix, url)
		add(prefix+"_PROTO", strings.ToLower(protocol))
		add(prefix+"_PORT", number)
		add(prefix+"_ADDR", ip)
	}
}

func variableName(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
