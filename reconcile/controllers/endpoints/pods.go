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

// namedPorts yields the ports of pod that have names. Of several with a name and a protocol, the first counts.
func namedPorts(pod *corev1.Pod) iter.Seq[*corev1.ContainerPort] {
	return func(yield func(*corev1.ContainerPort) bool) {
		for i := range len(pod.Spec.Containers) + len(pod.Spec.InitContainers) {
			var c *corev1.Container
			if i < len(pod.Spec.Containers) {
				c = &pod.Spec.Containers[i]
			} else if c = &pod.Spec.InitContainers[i-len(pod.Spec.Containers)]; optional.Value(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
				continue // it ends before the others begin
			}
			for k := range c.Ports {
				if c.Ports[k].Name != "" && !yield(&c.Ports[k]) {
					return
				}
			}
		}
	}
}

// maxTargets bounds the ports of all groups of pods of a service: a port that all pods have counts once, and again for each
// pod whose other ports no other pod has.
const maxTargets = 200_000

// targets finds the ports of pods that a service leads to, once for all pods with the same ports. T is what is made of them.
type targets[T any] struct {
	service  *corev1.Service
	make     func([]target) T
	numbered []target             // the same in all pods
	named    map[targetName][]int // the ports of the service
	known    map[string]T         // by the named ports of a pod
	left     int
}

// A target is a port of a service and the number of the port of pods that it leads to.
type target struct {
	index  int
	number int32
}

type targetName struct {
	name     string
	protocol corev1.Protocol
}

func newTargets[T any](service *corev1.Service, make func([]target) T) *targets[T] {
	t := &targets[T]{service: service, make: make, named: map[targetName][]int{}, known: map[string]T{}, left: maxTargets}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if port.TargetPort.Type == intstr.Int {
			t.numbered = append(t.numbered, target{i, port.TargetPort.IntVal})
			continue
		}
		name := targetName{port.TargetPort.StrVal, port.Protocol}
		t.named[name] = append(t.named[name], i)
	}
	return t
}

// of returns what the ports of a pod make, or false if the pods before it had more than maxTargets.
func (t *targets[T]) of(pod *corev1.Pod) (T, bool) {
	var shape strings.Builder
	if len(t.named) > 0 {
		for p := range namedPorts(pod) {
			fmt.Fprintf(&shape, "%s %s %d,", p.Name, p.Protocol, p.ContainerPort)
		}
	}
	if made, ok := t.known[shape.String()]; ok {
		return made, true
	}
	if t.left < 0 {
		return *new(T), false
	}
	found := slices.Clone(t.numbered)
	seen := map[targetName]bool{}
	for p := range namedPorts(pod) {
		name := targetName{p.Name, p.Protocol}
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, i := range t.named[name] {
			found = append(found, target{i, p.ContainerPort})
		}
	}
	if t.left -= len(found); t.left < 0 {
		return *new(T), false
	}
	slices.SortFunc(found, func(a, b target) int { return cmp.Compare(a.index, b.index) })
	made := t.make(found)
	t.known[shape.String()] = made
	return made, true
}

// sortByHash sorts a list in the order of Kubernetes.
func sortByHash[T any](list []T) {
	if len(list) < 2 {
		return // a hash is dear
	}
	type hashed struct {
		hash string
		item T
	}
	all := make([]hashed, len(list))
	for i := range list {
		all[i] = hashed{hashOrder(list[i]), list[i]}
	}
	slices.SortFunc(all, func(a, b hashed) int { return strings.Compare(a.hash, b.hash) })
	for i := range all {
		list[i] = all[i].item
	}
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
