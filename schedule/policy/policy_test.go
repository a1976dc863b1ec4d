package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
)

const policyHead = "apiVersion: v1\nkind: Policy\n"

// volumes is a policy.VolumeBinder that notes its timeout.
type volumes struct {
	schedule.Predicate
	timeout *time.Duration
}

func (v volumes) Within(timeout time.Duration) schedule.Predicate {
	*v.timeout = timeout
	return v
}

// parts returns parts, and the timeout with which volumes are bound.
func parts() (policy.Parts, *time.Duration) {
	timeout := time.Duration(-1)
	fits := func(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict { return schedule.Fits }
	return policy.Parts{Volumes: volumes{schedule.PredicateFunc("VolumeBinding", fits), &timeout}}, &timeout
}

func mustDecode(t *testing.T, decode func([]byte) (*policy.File, error), text string) *policy.File {
	t.Helper()
	f, err := decode([]byte(text))
	if err != nil {
		t.Fatalf("the decoder refuses %s: %v, want a File", text, err)
	}
	return f
}

// describe returns the names of predicates, and of priorities with their weights.
func describe(p schedule.Profile) string {
	var names []string
	for _, predicate := range p.Predicates {
		names = append(names, predicate.Name())
	}
	text := p.Name + ": " + strings.Join(names, " ") + ";"
	for _, w := range p.Priorities {
		text += fmt.Sprintf(" %s*%d", w.Name(), w.Weight)
	}
	return text
}

// theOnly returns the only profile of a file.
func theOnly(t *testing.T, f *policy.File) schedule.Profile {
	t.Helper()
	parts, _ := parts()
	list, err := f.Profiles(parts)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d profiles, error %v", len(list), err)
	}
	return list[0]
}

// TestDefaults checks that files that choose nothing have the default predicates and priorities of Kubernetes
// that this scheduler has.
func TestDefaults(t *testing.T) {
	want := describe(schedule.Profile{Name: "default-scheduler", Priorities: priorities.Default(),
		Predicates: append([]schedule.Predicate{schedule.PredicateFunc("VolumeBinding", nil)}, predicates.Default()...)})
	for _, text := range []string{"", "profiles: []", "profiles: [{}]", "profiles: [{plugins: {}, pluginConfig: []}]", "profiles: null\nextenders: null"} {
		f := mustDecode(t, policy.DecodeConfiguration, configHead+text)
		p := theOnly(t, f)
		if got := describe(p); got != want || p.NoPreemption || len(f.Warnings()) > 0 {
			t.Errorf("%q: %s, warnings %v, want %s", text, got, f.Warnings(), want)
		}
	}
	f := mustDecode(t, policy.DecodePolicy, policyHead)
	got := describe(theOnly(t, f))
	const wantPolicy = "default-scheduler: VolumeBinding Unsupported NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity TaintToleration PodTopologySpread InterPodAffinity; " +
		"TaintToleration*1 NodeAffinity*1 PodTopologySpread*2 InterPodAffinity*1 NodeResourcesBalancedAllocation*1 ImageLocality*1 LeastAllocated*1 NodePreferAvoidPods*10000"
	if got != wantPolicy {
		t.Errorf("%s, want\n%s", got, wantPolicy)
	}
	wantWarnings := []string{
		"predicates is not set, and of the default ones these are not supported: MaxEBSVolumeCount, MaxGCEPDVolumeCount, MaxAzureDiskVolumeCount",
	}
	if !slices.Equal(f.Warnings(), wantWarnings) {
		t.Errorf("warnings %q", f.Warnings())
	}
}

// TestPolicy checks what names of a Policy become.
func TestPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"predicates: []\npriorities: []":                     "Unsupported NodeUnschedulable TaintToleration;",
		"predicates: [{name: PodFitsPorts}]\npriorities: []": "Unsupported NodeUnschedulable NodePorts TaintToleration;",
		"predicates: [{name: HostName}, {name: MatchInterPodAffinity}, {name: CheckVolumeBinding}, {name: HostName}]\npriorities: []":                                                  "VolumeBinding Unsupported NodeUnschedulable NodeName TaintToleration InterPodAffinity;",
		"predicates: [{name: MatchNodeSelector}, {name: PodFitsHostPorts}, {name: PodFitsResources}, {name: EvenPodsSpread}]\npriorities: []":                                          "Unsupported NodeUnschedulable NodePorts NodeAffinity NodeResourcesFit TaintToleration PodTopologySpread;",
		"predicates: []\npriorities: [{name: EqualPriority, weight: 1}]":                                                                                                               "Unsupported NodeUnschedulable TaintToleration;",
		"predicates: []\npriorities: [{name: MostRequestedPriority, weight: 2}, {name: LeastRequestedPriority, weight: 3}, {name: ServiceSpreadingPriority, weight: 7}]":               "Unsupported NodeUnschedulable TaintToleration; PodTopologySpread*7 LeastAllocated*3 MostAllocated*2",
		"predicates: []\npriorities: [{name: SelectorSpreadPriority, weight: 7}, {name: EvenPodsSpreadPriority, weight: 2}]":                                                           "Unsupported NodeUnschedulable TaintToleration; PodTopologySpread*2",
		"predicates: []\npriorities: [{name: packed, weight: 4, argument: {requestedToCapacityRatioArguments: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}]": "Unsupported NodeUnschedulable TaintToleration; RequestedToCapacityRatio*4",
	} {
		f := mustDecode(t, policy.DecodePolicy, policyHead+text)
		p := theOnly(t, f)
		if got := describe(p); got != "default-scheduler: "+want || p.NoPreemption || len(f.Warnings()) > 0 {
			t.Errorf("%s:\n%s, warnings %v, want\n%s", text, got, f.Warnings(), want)
		}
	}
}

// TestPolicyInJSON reads a file of kube-scheduler's documentation, with every part of it.
func TestPolicyInJSON(t *testing.T) {
	f := mustDecode(t, policy.DecodePolicy, `{
		"kind": "Policy", "apiVersion": "v1",
		"predicates": [{"name": "PodFitsHostPorts"}, {"name": "PodFitsResources"}, {"name": "MatchNodeSelector"}, {"name": "HostName"}],
		"priorities": [{"name": "LeastRequestedPriority", "weight": 1}, {"name": "BalancedResourceAllocation", "weight": 1},
			{"name": "EqualPriority", "weight": 1}],
		"extenders": [{"urlPrefix": "http://127.0.0.1:12346/scheduler", "filterVerb": "filter", "BindVerb": "bind", "prioritizeVerb": "prioritize",
			"weight": 5, "enableHttps": false, "nodeCacheCapable": false, "httpTimeout": 30000000000,
			"managedResources": [{"name": "example.com/foo", "ignoredByScheduler": true}]}],
		"hardPodAffinitySymmetricWeight": 10, "alwaysCheckAllPredicates": true
	}`)
	const want = "default-scheduler: Unsupported NodeUnschedulable NodeName NodePorts NodeAffinity NodeResourcesFit TaintToleration; NodeResourcesBalancedAllocation*1 LeastAllocated*1"
	if got := describe(theOnly(t, f)); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	e := f.Extenders()
	if len(e) != 1 || e[0].BindVerb != "bind" || e[0].HTTPTimeout != 30*time.Second || e[0].Weight != 5 || !e[0].ManagedResources[0].IgnoredByScheduler {
		t.Errorf("extenders %+v", e)
	}
	if w := f.Warnings(); !slices.Equal(w, []string{"alwaysCheckAllPredicates has no effect: the reasons are those of the first predicate that refuses a node"}) {
		t.Errorf("warnings %q", w)
	}
}

// ratio is a priority with the argument of RequestedToCapacityRatioPriority.
func ratio(argument string) string {
	return "priorities: [{name: RequestedToCapacityRatioPriority, weight: 1, argument: {requestedToCapacityRatioArguments: " + argument + "}}]"
}

func TestPolicyRefused(t *testing.T) {
	for text, want := range map[string]string{
		"predicates: [{name: Foo}]": `predicates[0].name: Invalid value: "Foo": no predicate has this name`,
		"predicates: [{}]":          "predicates[0].name: Required value",
		"predicates: [{name: HostName}, {name: MaxEBSVolumeCount}]":                                                                                  "predicates[1].name: MaxEBSVolumeCount is not supported",
		"predicates: [{name: MaxGCEPDVolumeCount}]":                                                                                                  "predicates[0].name: MaxGCEPDVolumeCount is not supported",
		"predicates: [{name: CheckServiceAffinity}]":                                                                                                 "predicates[0].argument.serviceAffinity: Required value",
		"predicates: [{name: HostName, argument: {labelsPresence: {}}}]":                                                                             "predicates[0].argument.labelsPresence: Forbidden: HostName does not have it",
		"predicates: [{name: x, argument: {}}]":                                                                                                      "predicates[0].argument: exactly 1 predicate argument is required",
		"predicates: [{name: x, argument: {labelsPresence: {}, serviceAffinity: {}}}]":                                                               "predicates[0].argument: exactly 1 predicate argument is required",
		"predicates: [{nam: HostName}]":                                                                                                              `unknown field "predicates[0].nam"`,
		"predicates: [{name: x, argument: {labelsPresence: {label: [x]}}}]":                                                                          `unknown field "predicates[0].argument.labelsPresence.label"`,
		"priorities: [{name: EqualPriority, weight: 1}, {name: Foo, weight: 1}]":                                                                     `priorities[1].name: Invalid value: "Foo": no priority has this name`,
		"priorities: [{name: EqualPriority, weight: 0}]":                                                                                             "priorities[0].weight: Invalid value: 0: not in valid range [1, 2147483647]",
		"priorities: [{name: ImageLocalityPriority, weight: -3}]":                                                                                    "priorities[0].weight: Invalid value: -3: not in valid range [1, 2147483647]",
		"priorities: [{name: ImageLocalityPriority, weight: 2147483648}]":                                                                            "priorities[0].weight: Invalid value: 2147483648: not in valid range",
		"priorities: [{name: ImageLocalityPriority, weight: heavy}]":                                                                                 "priorities.weight of type int64",
		"priorities: [{name: x, weight: 1, argument: {}}]":                                                                                           "priorities[0].argument: exactly 1 priority argument is required",
		"priorities: [{name: EqualPriority, weight: 1, argument: {labelPreference: {}}}]":                                                            "priorities[0].argument.labelPreference: Forbidden",
		"priorities: [{name: ImageLocalityPriority, weight: 1}, {name: ImageLocalityPriority, weight: 2}]":                                           "priorities[1].name: Duplicate value",
		"priorities: [{name: SelectorSpreadPriority, weight: 1}, {name: ServiceSpreadingPriority, weight: 1}]":                                       "priorities[1].name: Duplicate value",
		"priorities: [{name: a, weight: 1, argument: {labelPreference: {label: a}}}, {name: b, weight: 2, argument: {labelPreference: {label: b}}}]": "all priorities with labelPreference must have the same weight",
		"priorities: [{name: RequestedToCapacityRatioPriority, weight: 1}]":                                                                          "priorities[0].argument.requestedToCapacityRatioArguments: Required value",
		ratio("{}"): "priorities[0].argument.requestedToCapacityRatioArguments.shape: Required value",
		ratio("{shape: [{utilization: 50, score: 1}, {utilization: 50, score: 2}]}"):         "shape[1].utilization: Invalid value: 50: values must be sorted",
		ratio("{shape: [{utilization: 101, score: 1}]}"):                                     "shape[0].utilization: Invalid value: 101",
		ratio("{shape: [{utilization: 1, score: 11}]}"):                                      "shape[0].score: Invalid value: 11",
		ratio("{shape: [{utilization: 1, score: 1}], resources: [{name: cpu, weight: -1}]}"): "resources[0].weight: Invalid value: -1",
		"hardPodAffinitySymmetricWeight: 101":                                                "hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0, 100]",
		"alwaysCheckAllPredicates: maybe":                                                    "alwaysCheckAllPredicates of type bool",
		"profiles: []":                                                                       `unknown field "profiles"`,
		"extenders: [{urlPrefix: 'http://x', filterVerb: f, filterverb: g}]":                 `extenders[0]: duplicate field "filterverb"`,
		"extenders: [{urlPrefix: 'http://x', filter: f}]":                                    `extenders[0]: unknown field "filter"`,
		"extenders: [{urlPrefix: 'http://x', httpTimeout: 30s}]":                             "extenders[0]: httpTimeout must be a number of nanoseconds",
		"extenders: [{urlPrefix: 'http://x', tlsConfig: {ca: x}}]":                           `extenders[0]: unknown field "tlsConfig.ca"`,
		"extenders: [7]": "extenders[0]: ",
	} {
		if _, err := policy.DecodePolicy([]byte(policyHead + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestFiles checks what both decoders refuse of a file as a whole.
func TestFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "the file is empty",
		"# nothing\n---\n":             "the file is empty",
		"[]":                           "cannot unmarshal array",
		"{":                            "did not find expected",
		"kind: Pod\napiVersion: v1":    `apiVersion "v1", kind "Pod"`,
		"a: 1\n---\nb: 2":              "the file has more than one document",
		"kind: Policy\nkind: Policy":   `key "kind" already set in map`,
		strings.Repeat("#", 1<<20+1):   "the file has 1048577 bytes",
		strings.Repeat("[", 100_000):   "exceeded max depth",
		"Kind: Policy\napiVersion: v1": `kind ""`,
	} {
		for _, decode := range []func([]byte) (*policy.File, error){policy.DecodePolicy, policy.DecodeConfiguration} {
			if _, err := decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, want %s", text, err, want)
			}
		}
	}
	if _, err := policy.DecodePolicy([]byte(configHead)); err == nil || !strings.HasPrefix(err.Error(), "not a Policy of v1: ") {
		t.Errorf("another kind: %v", err)
	}
}
