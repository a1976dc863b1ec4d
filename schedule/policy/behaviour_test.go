package policy_test

import (
	"maps"
	"testing"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// amounts returns what a pod requests, or a node has.
func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// podWith returns a pod of the workload web that requests one gpu if it has the label gpu.
func podWith(name, node string, requests corev1.ResourceList, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}}
	if labels["gpu"] != "" {
		requests["example.com/gpu"] = resource.MustParse("1")
	}
	maps.Copy(p.Labels, labels)
	return p
}

// newState returns a State with the profiles of a file and the nodes a and b. On a is a pod that uses most of
// its cpu, and that must be near pods with the label friend. The node b is empty.
func newState(t *testing.T, file *policy.File) *schedule.State {
	t.Helper()
	parts, _ := parts()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	parts.Services = localcache.Scan(localcache.NewMap(service), func(s *corev1.Service) []string { return []string{s.Namespace} })
	parts.Together = func(*corev1.Pod) labels.Selector { return labels.SelectorFromSet(labels.Set{"app": "web"}) }
	profiles, err := file.Profiles(parts)
	if err != nil {
		t.Fatal(err)
	}
	s := schedule.NewStateOf(profiles, 1)
	for _, name := range []string{"a", "b"} {
		all := amounts("4", "4Gi")
		all["pods"] = resource.MustParse("10")
		s.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name, name: "", corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{Allocatable: all}})
	}
	resident := podWith("resident", "a", amounts("3", "1Gi"), nil)
	resident.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"friend": "yes"}}}}}}
	s.SetPod(schedule.NewPodInfo(resident))
	return s
}

// decide returns the node of a pod, or why it fits none.
func decide(t *testing.T, file *policy.File, labels map[string]string) string {
	t.Helper()
	node, unfit := newState(t, file).Decide(schedule.NewPodInfo(podWith("new", "", amounts("500m", "1Gi"), labels)))
	if unfit != nil {
		return unfit.Error()
	}
	return node
}

// TestArgumentsAct checks that the arguments of plugins change decisions. In most cases one score decides alone.
func TestArgumentsAct(t *testing.T) {
	gpu := map[string]string{"gpu": "yes"}
	const noGPU = "0/2 nodes are available: 2 Insufficient example.com/gpu."
	only := func(score, args string) string {
		return with("{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: " + score + "}]}}, pluginConfig: [{name: " + score + ", args: " + args + "}]}")
	}
	strategy := func(s string) string { return only("NodeResourcesFit", "{scoringStrategy: "+s+"}") }
	const shape = "requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}"
	for _, test := range []struct {
		text   string
		labels map[string]string
		want   string
	}{
		{strategy("{type: LeastAllocated}"), nil, "b"},
		{strategy("{type: MostAllocated}"), nil, "a"},
		{strategy("{type: RequestedToCapacityRatio, " + shape + "}"), nil, "a"},
		{strategy("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}}"), nil, "b"},
		{only("NodeAffinity", "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: name, operator: In, values: [a]}]}}]}}"), nil, "a"},
		{only("NodeAffinity", "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: [{key: metadata.name, operator: In, values: [b]}]}}]}}"), nil, "b"},
		{args("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: name, operator: In, values: [a]}]}]}}}"), nil, "a"},
		{args("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: name, operator: Exists}]}, {}]}}}"), nil, "b"},
		{args("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"), nil,
			"0/2 nodes are available: 2 node(s) didn't match scheduler-enforced node affinity."},
		{configHead, gpu, noGPU},
		{args("NodeResourcesFit", "{ignoredResources: [example.com/gpu]}"), gpu, "b"},
		{args("NodeResourcesFit", "{ignoredResourceGroups: [example.com]}"), gpu, "b"},
		{args("NodeResourcesFit", "{ignoredResourceGroups: [example.org]}"), gpu, noGPU},
		{configHead + "extenders: [{urlPrefix: 'http://x', filterVerb: f, managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]}]", gpu, "b"},
		{configHead + "extenders: [{urlPrefix: 'http://x', filterVerb: f, managedResources: [{name: example.com/gpu}]}]", gpu, noGPU},
		{only("InterPodAffinity", "{hardPodAffinityWeight: 1}"), map[string]string{"friend": "yes"}, "a"},
		{args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]}"), nil, "b"},
		{args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]}"), nil,
			"0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints (missing required label)."},
		{only("PodTopologySpread", "{defaultingType: System}"), nil, "b"},
		// The pod requests more memory than cpu, of which most is used on a.
		{only("NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: memory}]}"), nil, "a"},
	} {
		if got := decide(t, mustDecode(t, policy.DecodeConfiguration, test.text), test.labels); got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
}

// TestPolicyActs checks that predicates, priorities and arguments of a Policy decide.
func TestPolicyActs(t *testing.T) {
	gpu := map[string]string{"gpu": "yes"}
	for _, test := range []struct {
		text   string
		labels map[string]string
		want   string
	}{
		{"priorities: [{name: MostRequestedPriority, weight: 1}]", nil, "a"},
		{"priorities: [{name: LeastRequestedPriority, weight: 1}]", nil, "b"},
		{"priorities: [{name: LeastRequestedPriority, weight: 1}, {name: MostRequestedPriority, weight: 2}]", nil, "a"},
		{ratio("{shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}"), nil, "a"},
		{ratio("{shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}], resources: [{name: cpu, weight: 3}]}"), nil, "b"},
		{"priorities: [{name: SelectorSpreadPriority, weight: 1}]", nil, "b"},
		{"priorities: [{name: InterPodAffinityPriority, weight: 1}]", map[string]string{"friend": "yes"}, "a"},
		{"predicates: [{name: x, argument: {labelsPresence: {labels: [b], presence: true}}}]", nil, "b"},
		{"predicates: [{name: x, argument: {labelsPresence: {labels: [b]}}}]", nil, "a"},
		{"predicates: [{name: x, argument: {serviceAffinity: {labels: [name]}}}]", nil, "a"},
		{"priorities: [{name: x, weight: 1, argument: {labelPreference: {label: a, presence: true}}}]", nil, "a"},
		{"priorities: [{name: x, weight: 1, argument: {labelPreference: {label: a}}}]", nil, "b"},
		{"priorities: [{name: x, weight: 1, argument: {labelPreference: {label: a}}}, {name: z, weight: 1, argument: {labelPreference: {label: name}}}]", nil, "b"},
		{"priorities: [{name: x, weight: 1, argument: {serviceAntiAffinity: {label: name}}}]", nil, "b"},
		{"predicates: [{name: PodFitsResources}]", gpu, "0/2 nodes are available: 2 Insufficient example.com/gpu."},
		{"predicates: []\npriorities: [{name: MostRequestedPriority, weight: 1}]", gpu, "a"},
		{"extenders: [{urlPrefix: 'http://x', filterVerb: f, managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]}]\n" +
			"priorities: [{name: MostRequestedPriority, weight: 1}]", gpu, "a"},
	} {
		if got := decide(t, mustDecode(t, policy.DecodePolicy, policyHead+test.text), test.labels); got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
}

// TestEqualScores checks the arguments that make nodes alike for one score, or not.
func TestEqualScores(t *testing.T) {
	for _, test := range []struct {
		plugin, args string
		equal        bool
	}{
		{"InterPodAffinity", "{hardPodAffinityWeight: 0}", true},
		{"InterPodAffinity", "{hardPodAffinityWeight: 100}", false},
		{"InterPodAffinity", "{ignorePreferredTermsOfExistingPods: true}", true},
		{"PodTopologySpread", "{defaultingType: List}", true},
		{"PodTopologySpread", "{defaultingType: System}", false},
		{"NodeResourcesBalancedAllocation", "{resources: [{name: memory}]}", true},
		{"NodeResourcesBalancedAllocation", "{resources: []}", false},
	} {
		file := mustDecode(t, policy.DecodeConfiguration, with("{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: "+test.plugin+"}]}}, "+
			"pluginConfig: [{name: "+test.plugin+", args: "+test.args+"}]}"))
		s := newState(t, file)
		nodes := s.Explain(schedule.NewPodInfo(podWith("new", "", amounts("500m", "1Gi"), map[string]string{"friend": "yes"})))
		if got := nodes[0].Total == nodes[1].Total; got != test.equal {
			t.Errorf("%s %s: nodes alike %t, want %t", test.plugin, test.args, got, test.equal)
		}
	}
}
