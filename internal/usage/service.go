package usage

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var serviceNames = []corev1.ResourceName{
	"count/services", corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

func ofService(object any, _ time.Time) (corev1.ResourceList, error) {
	s, ok := object.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("a %T is not a service", object)
	}
	var nodePorts, balancers int64
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		nodePorts = int64(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		nodePorts = balancerPorts(s)
	}
	return corev1.ResourceList{
		"count/services":                     one(),
		corev1.ResourceServices:              one(),
		corev1.ResourceServicesNodePorts:     *resource.NewQuantity(nodePorts, resource.DecimalSI),
		corev1.ResourceServicesLoadBalancers: *resource.NewQuantity(balancers, resource.DecimalSI),
	}, nil
}

// balancerPorts returns the number of node ports that a load balancer has or will be given.
func balancerPorts(s *corev1.Service) (n int64) {
	if allocate := s.Spec.AllocateLoadBalancerNodePorts; allocate == nil || *allocate {
		return int64(len(s.Spec.Ports))
	}
	for i := range s.Spec.Ports {
		if s.Spec.Ports[i].NodePort != 0 {
			n++
		}
	}
	return n
}
