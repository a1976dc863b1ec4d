package usage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/usage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func amounts(list ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		out[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
	}
	return out
}

func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func sidecar(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		container("a", amounts("cpu", "1", "memory", "1Gi"), amounts("cpu", "2")),
		container("b", amounts("cpu", "500m"), nil),
	}}}
	if change != nil {
		change(p)
	}
	return p
}

func Example() {
	kind := usage.For(schema.GroupResource{Resource: "pods"})
	quota := corev1.ResourceQuotaSpec{Hard: amounts("pods", "10", "limits.cpu", "20", "services", "1")}
	charge, err := kind.Charge(&quota, quota.Hard, pod(nil), time.Now())
	fmt.Println(usage.Text(charge), err)
	// Output: limits.cpu=2,pods=1 <nil>
}

func TestOf(t *testing.T) {
	const plain = "count/pods=1,cpu=1500m,limits.cpu=2,memory=1Gi,pods=1,requests.cpu=1500m,requests.memory=1Gi"
	gone := metav1.NewTime(now.Add(-31 * time.Second))
	late, grace := metav1.NewTime(now.Add(-29*time.Second)), int64(30)
	no := false
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{}
		c.Spec.Resources.Requests = amounts("storage", "5Gi")
		change(c)
		return c
	}
	service := func(kind corev1.ServiceType, allocate *bool) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, AllocateLoadBalancerNodePorts: allocate, Ports: []corev1.ServicePort{{NodePort: 30000}, {}}}}
	}
	for name, test := range map[string]struct {
		resource string
		object   any
		want     string
	}{
		"pod":       {"pods", pod(nil), plain},
		"succeeded": {"pods", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), "count/pods=1"},
		"failed":    {"pods", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "count/pods=1"},
		"should be gone": {"pods", pod(func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &gone, &grace }),
			"count/pods=1"},
		"going": {"pods", pod(func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &late, &grace }), plain},
		"init containers": {"pods", pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{container("i", amounts("cpu", "4"), nil), sidecar(container("s", amounts("cpu", "100m"), amounts("cpu", "1"))), container("j", amounts("cpu", "4"), nil)}
		}), "count/pods=1,cpu=4100m,limits.cpu=3,memory=1Gi,pods=1,requests.cpu=4100m,requests.memory=1Gi"},
		"overhead": {"pods", pod(func(p *corev1.Pod) { p.Spec.Overhead = amounts("cpu", "100m", "memory", "1Gi") }),
			"count/pods=1,cpu=1600m,limits.cpu=2100m,memory=2Gi,pods=1,requests.cpu=1600m,requests.memory=2Gi"},
		"as a whole": {"pods", pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "7"), Limits: amounts("cpu", "8", "example.com/x", "1")}
		}), "count/pods=1,cpu=7,limits.cpu=8,memory=1Gi,pods=1,requests.cpu=7,requests.memory=1Gi"},
		"shrinking": {"pods", pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Resources: &corev1.ResourceRequirements{Requests: amounts("cpu", "3"), Limits: amounts("cpu", "4")}}}
		}), "count/pods=1,cpu=3500m,limits.cpu=4,memory=1Gi,pods=1,requests.cpu=3500m,requests.memory=1Gi"},
		"cannot grow": {"pods", pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", AllocatedResources: amounts("cpu", "200m"),
				Resources: &corev1.ResourceRequirements{Requests: amounts("cpu", "100m"), Limits: amounts("cpu", "1")}}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
		}), "count/pods=1,cpu=700m,limits.cpu=1,pods=1,requests.cpu=700m"},
		"shrinking as a whole": {"pods", pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "7"), Limits: amounts("cpu", "8")}
			p.Status.AllocatedResources = amounts("cpu", "8")
			p.Status.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "9"), Limits: amounts("cpu", "10")}
		}), "count/pods=1,cpu=9,limits.cpu=10,memory=1Gi,pods=1,requests.cpu=9,requests.memory=1Gi"},
		"devices and pages": {"pods", pod(func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{container("c", amounts("example.com/gpu", "2", "hugepages-2Mi", "4Mi", "ephemeral-storage", "1Gi"), amounts("example.com/gpu", "2", "ephemeral-storage", "2Gi"))}
		}), "count/pods=1,ephemeral-storage=1Gi,hugepages-2Mi=4Mi,limits.ephemeral-storage=2Gi,pods=1,requests.ephemeral-storage=1Gi,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi"},
		"service":            {"services", service(corev1.ServiceTypeClusterIP, nil), "count/services=1,services=1,services.loadbalancers=0,services.nodeports=0"},
		"node ports":         {"services", service(corev1.ServiceTypeNodePort, nil), "count/services=1,services=1,services.loadbalancers=0,services.nodeports=2"},
		"balancer":           {"services", service(corev1.ServiceTypeLoadBalancer, nil), "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"},
		"balancer, no ports": {"services", service(corev1.ServiceTypeLoadBalancer, &no), "count/services=1,services=1,services.loadbalancers=1,services.nodeports=1"},
		"claim":              {"persistentvolumeclaims", claim(func(*corev1.PersistentVolumeClaim) {}), "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=5Gi"},
		"claim of a class, that grew": {"persistentvolumeclaims", claim(func(c *corev1.PersistentVolumeClaim) {
			gold := "gold"
			c.Spec.StorageClassName, c.Status.AllocatedResources = &gold, amounts("storage", "6Gi")
		}), "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=6Gi,persistentvolumeclaims=1,requests.storage=6Gi"},
		"secret":     {"secrets", &corev1.Secret{}, "count/secrets=1,secrets=1"},
		"quota":      {"resourcequotas", &corev1.ResourceQuota{}, "count/resourcequotas=1,resourcequotas=1"},
		"controller": {"replicationcontrollers", nil, "count/replicationcontrollers=1,replicationcontrollers=1"},
		"endpoints":  {"endpoints", nil, "count/endpoints=1"},
	} {
		kind := usage.For(schema.GroupResource{Resource: test.resource})
		list, err := kind.Of(test.object, now)
		if got := usage.Text(list); got != test.want || err != nil {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, test.want)
		}
		for n := range list {
			if !kind.Counts(n) {
				t.Errorf("%s: is measured as %s, and does not count as it", name, n)
			}
		}
	}
	for _, wrong := range []string{"pods", "services", "persistentvolumeclaims"} {
		if _, err := usage.For(schema.GroupResource{Resource: wrong}).Of(&corev1.Secret{}, now); err == nil {
			t.Errorf("a secret was measured as one of %s", wrong)
		}
	}
}

func TestScopes(t *testing.T) {
	deadline := pod(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64) })
	effort := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("c", amounts("ephemeral-storage", "1"), nil)}}}
	init := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{container("c", nil, amounts("memory", "1"))}}}
	high := pod(func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	term := corev1.PodAffinityTerm{Namespaces: []string{"other"}}
	affine := pod(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term}}}}
	})
	const priority = corev1.ResourceQuotaScopePriorityClass
	for i, test := range []struct {
		scope    corev1.ResourceQuotaScope
		operator corev1.ScopeSelectorOperator
		values   []string
		pod      *corev1.Pod
		want     bool
	}{
		{corev1.ResourceQuotaScopeTerminating, corev1.ScopeSelectorOpExists, nil, deadline, true},
		{corev1.ResourceQuotaScopeTerminating, corev1.ScopeSelectorOpExists, nil, effort, false},
		{corev1.ResourceQuotaScopeNotTerminating, corev1.ScopeSelectorOpExists, nil, effort, true},
		{corev1.ResourceQuotaScopeNotTerminating, corev1.ScopeSelectorOpExists, nil, deadline, false},
		{corev1.ResourceQuotaScopeBestEffort, corev1.ScopeSelectorOpExists, nil, effort, true},
		{corev1.ResourceQuotaScopeBestEffort, corev1.ScopeSelectorOpExists, nil, init, false},
		{corev1.ResourceQuotaScopeNotBestEffort, corev1.ScopeSelectorOpExists, nil, init, true},
		{priority, corev1.ScopeSelectorOpExists, nil, high, true},
		{priority, corev1.ScopeSelectorOpExists, nil, effort, false},
		{priority, corev1.ScopeSelectorOpDoesNotExist, nil, high, false},
		{priority, corev1.ScopeSelectorOpDoesNotExist, nil, effort, true},
		{priority, corev1.ScopeSelectorOpIn, []string{"low", "high"}, high, true},
		{priority, corev1.ScopeSelectorOpIn, []string{"low"}, high, false},
		{priority, corev1.ScopeSelectorOpIn, []string{"low"}, effort, false},
		{priority, corev1.ScopeSelectorOpNotIn, []string{"low"}, high, true},
		{priority, corev1.ScopeSelectorOpNotIn, []string{"low"}, effort, true},
		{priority, corev1.ScopeSelectorOpNotIn, []string{"high"}, high, false},
		{corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ScopeSelectorOpExists, nil, affine, true},
		{corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ScopeSelectorOpExists, nil, high, false},
		{corev1.ResourceQuotaScopeVolumeAttributesClass, corev1.ScopeSelectorOpExists, nil, high, false},
	} {
		spec := corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: test.scope, Operator: test.operator, Values: test.values}}}}
		got, err := usage.For(schema.GroupResource{Resource: "pods"}).In(&spec, test.pod)
		if got != test.want || err != nil {
			t.Errorf("test %d: In(%s %s %v) = %t, %v, want %t", i, test.scope, test.operator, test.values, got, err, test.want)
		}
	}
	// Objects of a kind without scopes are in none.
	spec := corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating}}
	if ok, err := usage.For(schema.GroupResource{Resource: "secrets"}).In(&spec, &corev1.Secret{}); ok || err != nil {
		t.Errorf("a secret is in a scope: %v", err)
	}
	if _, err := usage.For(schema.GroupResource{Resource: "pods"}).In(&corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{
		MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: priority, Operator: "Like"}}}}, high); err == nil {
		t.Error("an unknown operator was understood")
	}
}

func TestIgnored(t *testing.T) {
	for resource, want := range map[schema.GroupResource]bool{
		{Resource: "events"}: true, {Group: "events.k8s.io", Resource: "events"}: true, {Resource: "bindings"}: true, {Resource: "pods"}: false,
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true, {Group: "authentication.k8s.io", Resource: "tokenreviews"}: true,
		{Group: "example.com", Resource: "events"}: false,
	} {
		if usage.Ignored(resource) != want {
			t.Errorf("%v: want %t", resource, want)
		}
	}
}

func TestBeyond(t *testing.T) {
	got := usage.Beyond(amounts("a", "3", "b", "2", "c", "1", "d", "0"), amounts("a", "1", "b", "2", "c", "5"))
	if !usage.Equal(got, amounts("a", "2")) || usage.Equal(got, amounts("a", "1")) || usage.Equal(got, amounts("b", "2")) {
		t.Errorf("got %s", usage.Text(got))
	}
}
