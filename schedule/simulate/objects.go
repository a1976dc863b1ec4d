package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// The annotations of pods and pod templates in manifests, in seconds.
const (
	// ArrivalAnnotation is when the pod arrives, from the beginning of the simulation.
	ArrivalAnnotation = "planekit.io/arrival-seconds"
	// DurationAnnotation is how long it runs.
	DurationAnnotation = "planekit.io/duration-seconds"
)

// manifests are the objects of one file.
type manifests struct {
	workload *Workload
	classes  map[string]*schedulingv1.PriorityClass
	// standard is the class of pods that name none; nil means the priority 0.
	standard *schedulingv1.PriorityClass
}

// systemClasses are the priority classes that each cluster has.
func systemClasses() map[string]*schedulingv1.PriorityClass {
	return map[string]*schedulingv1.PriorityClass{
		"system-cluster-critical": {Value: 2_000_000_000},
		"system-node-critical":    {Value: 2_000_001_000},
	}
}

// kinds has the function that reads an object of each kind.
var kinds = map[string]func(*manifests, json.RawMessage) error{
	"v1/Node":                            decoded((*manifests).node),
	"v1/Pod":                             decoded((*manifests).pod),
	"v1/Namespace":                       decoded((*manifests).namespace),
	"policy/v1/PodDisruptionBudget":      decoded((*manifests).budget),
	"scheduling.k8s.io/v1/PriorityClass": decoded((*manifests).class),
	"apps/v1/Deployment": decoded(func(m *manifests, o *appsv1.Deployment) error {
		return m.replicas(&o.ObjectMeta, o.Spec.Replicas, &o.Spec.Template)
	}),
	"apps/v1/ReplicaSet": decoded(func(m *manifests, o *appsv1.ReplicaSet) error {
		return m.replicas(&o.ObjectMeta, o.Spec.Replicas, &o.Spec.Template)
	}),
	"apps/v1/StatefulSet": decoded(func(m *manifests, o *appsv1.StatefulSet) error {
		return m.replicas(&o.ObjectMeta, o.Spec.Replicas, &o.Spec.Template)
	}),
	"v1/ReplicationController": decoded(func(m *manifests, o *corev1.ReplicationController) error {
		return m.replicas(&o.ObjectMeta, o.Spec.Replicas, o.Spec.Template)
	}),
}

// decoded returns the function that decodes a T and adds it.
func decoded[T any](add func(*manifests, *T) error) func(*manifests, json.RawMessage) error {
	return func(m *manifests, text json.RawMessage) error {
		object := new(T)
		if err := kjson.Unmarshal(text, object); err != nil {
			return err
		}
		return add(m, object)
	}
}

// defaultMaxPods is the number of pods that a kubelet runs unless it is configured otherwise.
const defaultMaxPods = 110

func (m *manifests) node(n *corev1.Node) error {
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = n.Status.Capacity
	}
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = corev1.ResourceList{}
	}
	if _, ok := n.Status.Allocatable[corev1.ResourcePods]; !ok {
		n.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(defaultMaxPods, resource.DecimalSI)
	}
	if n.Labels == nil {
		n.Labels = make(map[string]string)
	}
	n.Labels[corev1.LabelHostname] = cmp.Or(n.Labels[corev1.LabelHostname], n.Name)
	m.workload.Nodes = append(m.workload.Nodes, n)
	return checkAmounts(n.Status.Allocatable)
}

func (m *manifests) namespace(n *corev1.Namespace) error {
	m.workload.Namespaces = append(m.workload.Namespaces, n)
	return nil
}

func (m *manifests) budget(b *policyv1.PodDisruptionBudget) error {
	b.Namespace = cmp.Or(b.Namespace, "default")
	m.workload.Budgets = append(m.workload.Budgets, b)
	return nil
}

func (m *manifests) class(c *schedulingv1.PriorityClass) error {
	m.classes[c.Name] = c
	if c.GlobalDefault {
		m.standard = c
	}
	return nil
}

func (m *manifests) pod(p *corev1.Pod) error {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if ended || p.DeletionTimestamp != nil && p.Spec.NodeName == "" {
		return nil
	}
	if p.Name == "" {
		return errors.New("it has no name")
	}
	return m.arrive(p, metav1.GetControllerOfNoCopy(p) != nil)
}

// replicas adds the pods of a controller.
func (m *manifests) replicas(controller *metav1.ObjectMeta, replicas *int32, template *corev1.PodTemplateSpec) error {
	if controller.UID != "" || metav1.GetControllerOfNoCopy(controller) != nil {
		return nil // its pods are there as well
	}
	if template == nil {
		return errors.New("it has no template")
	}
	if controller.Name == "" {
		return errors.New("it has no name")
	}
	count := 1
	if replicas != nil {
		count = int(*replicas)
	}
	if count < 0 {
		return fmt.Errorf("%d replicas", count)
	}
	if count > MaxPods-len(m.workload.Arrivals) {
		return fmt.Errorf("there are more than %d pods", MaxPods)
	}
	for i := range count {
		p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		p.Namespace, p.Name = controller.Namespace, fmt.Sprintf("%s-%d", controller.Name, i)
		if err := m.arrive(p, true); err != nil {
			return err
		}
	}
	return nil
}

// arrive adds a pod.
func (m *manifests) arrive(p *corev1.Pod, recreate bool) (err error) {
	p.Namespace = cmp.Or(p.Namespace, "default")
	a := Arrival{Pod: p, Recreate: recreate}
	if a.At, err = annotated(p, ArrivalAnnotation); err != nil {
		return err
	}
	if a.Duration, err = annotated(p, DurationAnnotation); err != nil {
		return err
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			requestLimits(&list[i].Resources)
		}
	}
	if len(m.workload.Arrivals) == MaxPods {
		return fmt.Errorf("there are more than %d pods", MaxPods)
	}
	m.workload.Arrivals = append(m.workload.Arrivals, a)
	return a.check()
}

// annotated returns the time in an annotation; 0 if the pod does not have it.
func annotated(p *corev1.Pod, name string) (time.Duration, error) {
	text, ok := p.Annotations[name]
	if !ok {
		return 0, nil
	}
	d, err := parseSeconds(text)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %w", name, err)
	}
	return d, nil
}

// requestLimits adds the requests that a container has only limits of.
func requestLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = make(corev1.ResourceList)
		}
		r.Requests[name] = limit
	}
}

// complete sets the priorities of pods, when all classes are known.
func (m *manifests) complete() error {
	for i := range m.workload.Arrivals {
		p := m.workload.Arrivals[i].Pod
		if p.Spec.Priority != nil {
			continue // the server has set it
		}
		class := m.standard
		if name := p.Spec.PriorityClassName; name != "" {
			if class = m.classes[name]; class == nil {
				return fmt.Errorf("pod %s/%s: there is no priority class %q", p.Namespace, p.Name, name)
			}
		}
		if class == nil {
			continue
		}
		p.Spec.Priority = new(class.Value)
		if p.Spec.PreemptionPolicy == nil {
			p.Spec.PreemptionPolicy = class.PreemptionPolicy
		}
	}
	return nil
}
