package podnetwork

import (
	"context"
	"errors"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/service/policy"
)

// policies enforces the NetworkPolicies of a node's pods.
type policies struct {
	client *client.Client
	// cache waits until it is as new as a revision of a policy.
	cache interface {
		WaitFor(ctx context.Context, revision string) error
	}
	enforcer *policy.Enforcer
}

// startPolicies starts what enforces the NetworkPolicies of a node's pods.
func startPolicies(s *stack.Stack, c Config) (*policies, error) {
	log := c.Log.WithName("policies")
	var group caches.Group
	all, err1 := caches.Add(&group, "networkpolicies", typed.NetworkPolicies(c.Client), log)
	namespaces, err2 := caches.Add(&group, "namespaces", typed.Namespaces(c.Client), log)
	pods, err3 := caches.Add(&group, "pods", typed.Pods(c.Client).WithUnmarshal(unmarshalPeer), log)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	recorder, err := events.New(events.Config{Client: c.Client, Component: "planekit-policies", Host: c.Node, Log: log})
	if err != nil {
		return nil, err
	}
	config := policy.Config{
		Node: c.Node, Policies: all, Pods: pods, Namespaces: namespaces, Log: log,
		Overrun: func(p *networkingv1.NetworkPolicy, reason string) {
			about := &corev1.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
			recorder.Event(about, corev1.EventTypeWarning, "PolicyTooLarge", "A node lets in or out less than the policy allows: "+reason)
		},
	}
	if c.Bridge != "" {
		config.Bridges = []string{c.Bridge}
	}
	enforcer, err := policy.New(config)
	if err != nil {
		return nil, err
	}
	group.Start(s)
	s.Start("events of policies", recorder.Run)
	s.Start("policies", func(ctx context.Context) error { return runAndRemove(ctx, s, enforcer) })
	return &policies{c.Client, all, enforcer}, nil
}

// currentTimeout bounds how long a pod waits for the control plane before it starts by the policies that its node knows.
const currentTimeout = time.Second

// Protect returns once the policies of a pod of the node that has not started yet hold for its addresses. It is for
// kubelet.Config. A policy that was created before the pod started is one of them, unless the control plane does not answer.
func (m *Member) Protect(ctx context.Context, pod *corev1.Pod, addresses []netip.Addr) error {
	if err := m.policies.awaitCurrent(ctx, pod.Namespace); err != nil {
		m.config.Log.V(1).Info("a pod starts by the policies that are known", "pod", pod.Namespace+"/"+pod.Name, "error", err.Error())
	}
	return m.policies.enforcer.Admit(ctx, pod, addresses...)
}

// awaitCurrent waits until the cache has the policies of a namespace as they are now.
func (p *policies) awaitCurrent(ctx context.Context, namespace string) error {
	ctx, done := context.WithTimeout(ctx, currentTimeout)
	defer done()
	all, _, err := typed.NetworkPolicies(p.client).List(ctx, namespace, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := p.cache.WaitFor(ctx, one.ResourceVersion); err != nil {
			return err
		}
	}
	return nil
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
