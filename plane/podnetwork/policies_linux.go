package podnetwork

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/service/policy"
)

// startPolicies starts what enforces the NetworkPolicies of a node's pods.
func startPolicies(s *stack.Stack, c Config) (*policy.Enforcer, error) {
	log := c.Log.WithName("policies")
	var group caches.Group
	policies, err1 := caches.Add(&group, "networkpolicies", typed.NetworkPolicies(c.Client), log)
	namespaces, err2 := caches.Add(&group, "namespaces", typed.Namespaces(c.Client), log)
	pods, err3 := caches.Add(&group, "pods", typed.Pods(c.Client).WithUnmarshal(unmarshalPeer), log)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	enforcer, err := policy.New(policy.Config{Node: c.Node, Policies: policies, Pods: pods, Namespaces: namespaces, Log: log})
	if err != nil {
		return nil, err
	}
	group.Start(s)
	s.Start("policies", func(ctx context.Context) error {
		err := enforcer.Run(ctx)
		return errors.Join(err, enforcer.Remove(context.WithoutCancel(ctx)))
	})
	return enforcer, nil
}

// unmarshalPeer decodes what policies ask of a pod, and drops the rest: each node has all pods of the cluster.
func unmarshalPeer(data []byte, into *corev1.Pod) error {
	var whole corev1.Pod
	if err := whole.Unmarshal(data); err != nil {
		return err
	}
	m := whole.ObjectMeta
	into.ObjectMeta = metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels}
	into.Spec = corev1.PodSpec{
		NodeName: whole.Spec.NodeName, HostNetwork: whole.Spec.HostNetwork,
		Containers: withPorts(whole.Spec.Containers), InitContainers: withPorts(whole.Spec.InitContainers),
	}
	into.Status = corev1.PodStatus{Phase: whole.Status.Phase, PodIPs: whole.Status.PodIPs}
	return nil
}

// withPorts returns the ports of the containers that have some.
func withPorts(containers []corev1.Container) []corev1.Container {
	var all []corev1.Container
	for _, c := range containers {
		if len(c.Ports) > 0 {
			all = append(all, corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
		}
	}
	return all
}
