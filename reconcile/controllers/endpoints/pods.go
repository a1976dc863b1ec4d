package endpoints

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/dump"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ByService is the key function of an index of EndpointSlices by the "namespace/name" of their
// service.
func ByService(slice *discoveryv1.EndpointSlice) []string {
	name := slice.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		return nil
	}
	return []string{localcache.Key(slice.Namespace, name)}
}

// hasSelector reports whether the endpoints of a service are the pods it selects. Users manage the
// endpoints of other services.
func hasSelector(service *corev1.Service) bool {
	return service.Spec.Type != corev1.ServiceTypeExternalName && service.Spec.Selector != nil
}

// selectsPod reports whether pod, which may be nil, matches the selector of service. An empty
// selector that is set matches all pods.
func selectsPod(service *corev1.Service, pod *corev1.Pod) bool {
	if pod == nil || !hasSelector(service) {
		return false
	}
	for name, value := range service.Spec.Selector {
		if have, ok := pod.Labels[name]; !ok || have != value {
			return false
		}
	}
	return true
}

// selected returns those of pods that service selects, sorted by name.
func selected(service *corev1.Service, pods iter.Seq[*corev1.Pod]) (list []*corev1.Pod) {
	for pod := range pods {
		if selectsPod(service, pod) {
			list = append(list, pod)
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// reachable reports whether pod has an address and has not ended.
func reachable(pod *corev1.Pod) bool {
	return !podstatus.Ended(pod) && len(pod.Status.PodIPs) > 0
}

// endpointState holds the properties of a pod that its endpoints show and that can change.
type endpointState struct {
	uid                               string
	addresses, node, hostname, domain string
	ready, ended, deleting            bool
}

func endpointStateOf(pod *corev1.Pod) endpointState {
	s := endpointState{
		uid: string(pod.UID), node: pod.Spec.NodeName, hostname: pod.Spec.Hostname, domain: pod.Spec.Subdomain,
		ready: podstatus.Ready(pod), ended: podstatus.Ended(pod), deleting: pod.DeletionTimestamp != nil,
	}
	for _, ip := range pod.Status.PodIPs {
		s.addresses += ip.IP + " "
	}
	return s
}

// watchPods enqueues, after wait, the services whose endpoints a change of a pod changes.
func watchPods(c *reconcile.Controller[string], pods localcache.Cache[*corev1.Pod], services localcache.Index[string, *corev1.Service], wait time.Duration) {
	reconcile.WatchFunc(c, pods, func(old, new *corev1.Pod) {
		changed := old == nil || new == nil || endpointStateOf(old) != endpointStateOf(new)
		for service := range services.Get(cmp.Or(new, old).Namespace) {
			was, is := selectsPod(service, old), selectsPod(service, new)
			if was != is || is && changed {
				c.EnqueueAfter(localcache.KeyOf(service), wait)
			}
		}
	})
}

// addressOf returns ip in canonical form if it is of the family.
func addressOf(ip string, six bool) (string, bool) {
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return "", false
	}
	address = address.Unmap()
	return address.String(), address.Is6() == six
}

// targetPort returns the port of pod that a port of a service leads to.
func targetPort(pod *corev1.Pod, port *corev1.ServicePort) (int32, bool) {
	if port.TargetPort.Type == intstr.Int {
		return port.TargetPort.IntVal, true
	}
	for i := range pod.Spec.Containers {
		if number, ok := namedPort(&pod.Spec.Containers[i], port); ok {
			return number, true
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if optional.Value(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			continue // it ends before the others begin
		}
		if number, ok := namedPort(c, port); ok {
			return number, true
		}
	}
	return 0, false
}

func namedPort(c *corev1.Container, port *corev1.ServicePort) (int32, bool) {
	for _, p := range c.Ports {
		if p.Name == port.TargetPort.StrVal && p.Protocol == port.Protocol {
			return p.ContainerPort, true
		}
	}
	return 0, false
}

// hostnameIn returns the name of pod in the domain of service; it may be empty.
func hostnameIn(service *corev1.Service, pod *corev1.Pod) string {
	if pod.Spec.Subdomain != service.Name {
		return ""
	}
	return pod.Spec.Hostname
}

func podReference(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// headless reports whether a service has no address of its own.
func headless(service *corev1.Service) bool {
	return service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone
}

// hashOrder returns the key by which Kubernetes sorts ports and subsets.
func hashOrder(object any) string {
	h := fnv.New128a()
	//lint:ignore SA1019 its successor gives the same text from a module that we do not depend on
	fmt.Fprintf(h, "%v", dump.ForHash(object))
	return string(h.Sum(nil))
}

// triggers finds the time of the change that made endpoints out of date, by comparing with the
// previous call.
type triggers struct {
	mu sync.Mutex
	// services is guarded by mu.
	services map[string]trigger
}

// trigger holds when a service was created and when its pods became ready or unready.
type trigger struct {
	service time.Time
	pods    map[string]time.Time
}

// next returns the trigger to remember once the endpoints of service are written, and the time to
// write with them; zero if there is none.
func (t *triggers) next(service *corev1.Service, pods []*corev1.Pod) (trigger, time.Time) {
	t.mu.Lock()
	before, known := t.services[localcache.KeyOf(service)]
	t.mu.Unlock()
	after := trigger{service: service.CreationTimestamp.Time, pods: make(map[string]time.Time, len(pods))}
	var first time.Time
	note := func(at, last time.Time) {
		if at.After(last) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, pod := range pods {
		if c := podstatus.ReadyCondition(pod); c != nil && !c.LastTransitionTime.IsZero() {
			after.pods[pod.Name] = c.LastTransitionTime.Time
			note(c.LastTransitionTime.Time, before.pods[pod.Name])
		}
	}
	note(after.service, before.service)
	if !known {
		return after, after.service
	}
	return after, first
}

func (t *triggers) set(service string, to trigger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.services == nil {
		t.services = make(map[string]trigger)
	}
	t.services[service] = to
}

// drop forgets a service.
func (t *triggers) drop(service string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.services, service)
}

// annotateTrigger records in annotations, which it returns, the time of the change that led to the
// present contents of the object.
func annotateTrigger(annotations map[string]string, at time.Time) map[string]string {
	if at.IsZero() {
		delete(annotations, corev1.EndpointsLastChangeTriggerTime)
		return annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.EndpointsLastChangeTriggerTime] = at.UTC().Format(time.RFC3339Nano)
	return annotations
}
