// Package randomcluster makes small random clusters for tests of schedulers, in which pods often get in each
// other's way: they share labels, ports, topologies and little room.
package randomcluster

import (
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cluster is a random cluster. The same seed makes the same one.
type Cluster struct {
	r           *rand.Rand
	Nodes       []*corev1.Node
	Pods        []*corev1.Pod
	Namespaces  []*corev1.Namespace
	Services    []*corev1.Service
	ReplicaSets []*appsv1.ReplicaSet
	Budgets     []*policyv1.PodDisruptionBudget
	Storage
	made int
}

// New returns a cluster with nodes, namespaces, services, replica sets, storage, and pods on nodes.
func New(seed uint64) *Cluster {
	c := &Cluster{r: rand.New(rand.NewPCG(seed, 0))}
	for i, name := range namespaceNames {
		c.Namespaces = append(c.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": fmt.Sprint(i % 2)}}})
	}
	for i := range 2 + c.r.IntN(8) {
		c.Nodes = append(c.Nodes, c.Node(fmt.Sprintf("node-%d", i)))
	}
	c.storage()
	for _, namespace := range namespaceNames {
		if c.chance(2) {
			c.Services = append(c.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "svc"},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"app": one(c, apps)}}})
		}
		c.ReplicaSets = append(c.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set", UID: types.UID("set-" + namespace)},
			Spec: appsv1.ReplicaSetSpec{Selector: c.selector()}})
	}
	for i := range c.r.IntN(3) {
		c.Budgets = append(c.Budgets, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: one(c, namespaceNames), Name: fmt.Sprint("budget-", i)},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: c.selector()},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: c.r.Int32N(2)},
		})
	}
	taken := map[string]bool{}
	for range c.r.IntN(30) {
		pod := c.Pod()
		pod.Spec.NodeName = one(c, c.Nodes).Name
		freePorts(pod, taken)
		c.freeClaims(pod, taken)
		if c.chance(8) {
			c.ephemeral(pod)
		}
		if c.chance(8) {
			pod.DeletionTimestamp = &metav1.Time{}
		}
		pod.Status.StartTime = &metav1.Time{Time: time.Unix(c.r.Int64N(5)*100+int64(c.made), 0)} // no two are the same
		c.Pods = append(c.Pods, pod)
	}
	return c
}

// freePorts removes the host ports of a pod that another one on its node has.
func freePorts(pod *corev1.Pod, taken map[string]bool) {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if len(container.Ports) == 0 {
			continue
		}
		at := fmt.Sprint(pod.Spec.NodeName, container.Ports[0].HostPort)
		if taken[at] {
			container.Ports = nil
		}
		taken[at] = true
	}
}

var (
	namespaceNames = []string{"red", "blue", "green"}
	apps           = []string{"web", "db", "cache"}
	zones          = []string{"a", "b", "c"}
	images         = []string{"registry.example/web:1", "registry.example/db:2", "big:latest"}
	topologies     = []string{corev1.LabelHostname, corev1.LabelTopologyZone, "rack"}
)

// chance is true once in n times.
func (c *Cluster) chance(n int) bool { return c.r.IntN(n) == 0 }

func one[T any](c *Cluster, list []T) T { return list[c.r.IntN(len(list))] }

func quantity(n int, unit string) resource.Quantity { return resource.MustParse(fmt.Sprint(n, unit)) }

// Node returns another node. It is not added to Nodes.
func (c *Cluster) Node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": one(c, []string{"ssd", "hdd"})}}}
	if !c.chance(8) {
		n.Labels[corev1.LabelHostname] = name
	}
	if !c.chance(5) {
		n.Labels[corev1.LabelTopologyZone] = one(c, zones)
	}
	if c.chance(2) {
		n.Labels["rack"] = one(c, []string{"", "r1", "r2"})
	}
	n.Spec.Unschedulable = c.chance(12)
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectPreferNoSchedule} {
		if c.chance(5) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: one(c, []string{"gpu", "spot"}), Value: one(c, []string{"1", "2"}), Effect: effect})
		}
	}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: quantity(1+c.r.IntN(16), ""), corev1.ResourceMemory: quantity(1+c.r.IntN(32), "Gi"),
		corev1.ResourceEphemeralStorage: quantity(10+c.r.IntN(90), "Gi"), corev1.ResourcePods: quantity(5+c.r.IntN(20), ""),
	}
	if c.chance(3) {
		n.Status.Allocatable["example.com/gpu"] = quantity(1+c.r.IntN(4), "")
	}
	for _, image := range images {
		if c.chance(2) {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image}, SizeBytes: int64(c.r.IntN(2000)) << 20})
		}
	}
	return n
}

func (c *Cluster) selector() *metav1.LabelSelector {
	switch c.r.IntN(6) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{one(c, apps), one(c, apps)}}}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": one(c, apps)}}
}

func (c *Cluster) term() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: one(c, topologies), LabelSelector: c.selector()}
	if c.chance(3) {
		t.Namespaces = []string{one(c, namespaceNames)}
	}
	switch c.r.IntN(6) {
	case 0:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": one(c, []string{"0", "1"})}}
	}
	return t
}

func (c *Cluster) terms() (list []corev1.PodAffinityTerm) {
	for range c.r.IntN(3) {
		list = append(list, c.term())
	}
	return list
}

func (c *Cluster) weighted() (list []corev1.WeightedPodAffinityTerm) {
	for range c.r.IntN(3) {
		list = append(list, corev1.WeightedPodAffinityTerm{Weight: 1 + c.r.Int32N(100), PodAffinityTerm: c.term()})
	}
	return list
}

func (c *Cluster) nodeTerm() corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{one(c, []corev1.NodeSelectorRequirement{
		{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{one(c, []string{"ssd", "hdd"})}},
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{one(c, zones)}},
		{Key: "rack", Operator: corev1.NodeSelectorOpExists},
	})}}
}

func (c *Cluster) affinity() *corev1.Affinity {
	a := &corev1.Affinity{}
	if c.chance(2) {
		a.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: c.weighted()}
		if c.chance(2) {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = c.terms()
		}
	}
	if c.chance(2) {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: c.weighted()}
		if c.chance(2) {
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = c.terms()
		}
	}
	if c.chance(3) {
		a.NodeAffinity = &corev1.NodeAffinity{}
		for range c.r.IntN(3) {
			a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.PreferredSchedulingTerm{Weight: 1 + c.r.Int32N(100), Preference: c.nodeTerm()})
		}
		if c.chance(3) {
			a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{c.nodeTerm()}}
		}
	}
	return a
}

func (c *Cluster) spread() corev1.TopologySpreadConstraint {
	policy := func() *corev1.NodeInclusionPolicy {
		return one(c, []*corev1.NodeInclusionPolicy{nil, new(corev1.NodeInclusionPolicyHonor), new(corev1.NodeInclusionPolicyIgnore)})
	}
	constraint := corev1.TopologySpreadConstraint{
		MaxSkew: 1 + c.r.Int32N(3), TopologyKey: one(c, topologies), LabelSelector: c.selector(),
		WhenUnsatisfiable:  one(c, []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}),
		NodeAffinityPolicy: policy(), NodeTaintsPolicy: policy(),
	}
	if constraint.WhenUnsatisfiable == corev1.DoNotSchedule && c.chance(3) {
		constraint.MinDomains = new(1 + c.r.Int32N(4))
	}
	if constraint.LabelSelector != nil && c.chance(3) {
		constraint.MatchLabelKeys = []string{"tier"}
	}
	return constraint
}

// Pod returns another pod, which is on no node.
func (c *Cluster) Pod() *corev1.Pod {
	c.made++
	name := fmt.Sprintf("pod-%d", c.made)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: one(c, namespaceNames), Name: name, UID: types.UID(name), Labels: map[string]string{"app": one(c, apps)}}}
	if c.chance(3) {
		p.Labels["tier"] = one(c, []string{"front", "back"})
	}
	if c.chance(3) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", UID: types.UID("set-" + p.Namespace), Controller: new(true)}}
	}
	p.Spec.Priority = new(one(c, []int32{-5, 0, 0, 10, 10, 1000}))
	for i := range 1 + c.r.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, c.container(fmt.Sprintf("c%d", i)))
	}
	if c.chance(3) {
		p.Spec.Affinity = c.affinity()
	}
	for c.chance(3) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c.spread())
	}
	if c.chance(3) {
		p.Spec.Volumes = c.podVolumes(p.Namespace)
	}
	if c.chance(6) {
		p.Spec.NodeSelector = map[string]string{"disk": one(c, []string{"ssd", "hdd"})}
	}
	for c.chance(3) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, one(c, []corev1.Toleration{
			{Operator: corev1.TolerationOpExists}, {Key: "gpu", Operator: corev1.TolerationOpExists},
			{Key: "spot", Value: "1", Effect: corev1.TaintEffectNoSchedule}, {Key: "spot", Value: "2", Effect: corev1.TaintEffectPreferNoSchedule},
		}))
	}
	return p
}

func (c *Cluster) container(name string) corev1.Container {
	requests := corev1.ResourceList{}
	if c.chance(2) {
		requests[corev1.ResourceCPU] = quantity(c.r.IntN(2000), "m")
	}
	if c.chance(2) {
		requests[corev1.ResourceMemory] = quantity(c.r.IntN(4000), "Mi")
	}
	if c.chance(8) {
		requests["example.com/gpu"] = quantity(1, "")
	}
	container := corev1.Container{Name: name, Image: one(c, append(images, "big", "absent")), Resources: corev1.ResourceRequirements{Requests: requests}}
	if c.chance(8) {
		container.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8000 + c.r.Int32N(3), Protocol: corev1.ProtocolTCP}}
	}
	return container
}
