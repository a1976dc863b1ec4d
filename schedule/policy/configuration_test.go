package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
)

const configHead = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// with returns a file with one profile.
func with(profile string) string { return configHead + "profiles: [" + profile + "]" }

// plugins returns a file whose only profile has plugins.
func plugins(sets string) string { return with("{plugins: {" + sets + "}}") }

// args returns a file whose only profile has arguments for a plugin.
func args(plugin, args string) string {
	return with("{pluginConfig: [{name: " + plugin + ", args: " + args + "}]}")
}

// TestPlugins checks which predicates and priorities a profile has by what it enables and disables.
func TestPlugins(t *testing.T) {
	const none = "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: SchedulingGates}]}"
	const (
		allFilters = "VolumeBinding Unsupported NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity;"
		allScores  = " TaintToleration*3 NodeAffinity*2 LeastAllocated*1 PodTopologySpread*2 InterPodAffinity*2 NodeResourcesBalancedAllocation*1 ImageLocality*1"
	)
	for text, want := range map[string]string{
		none: "Unsupported;",
		none + ", filter: {enabled: [{name: NodePorts}, {name: NodeName}]}":                      "Unsupported NodePorts NodeName;",
		none + ", score: {enabled: [{name: ImageLocality}, {name: TaintToleration, weight: 4}]}": "Unsupported; ImageLocality*1 TaintToleration*4",
		"filter: {disabled: [{name: NodePorts}, {name: VolumeBinding}]}":                         strings.NewReplacer("NodePorts ", "", "VolumeBinding ", "").Replace(allFilters) + allScores,
		"filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}]}":                         "Unsupported NodeName;" + allScores,
		"score: {disabled: [{name: '*'}]}":                                                       allFilters,
		// An enabled plugin replaces the default one, and comes first.
		"score: {enabled: [{name: ImageLocality, weight: 9}]}":                                        allFilters + " ImageLocality*9 TaintToleration*3 NodeAffinity*2 LeastAllocated*1 PodTopologySpread*2 InterPodAffinity*2 NodeResourcesBalancedAllocation*1",
		"score: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 7}]}": allFilters + strings.Replace(allScores, " TaintToleration*3", "", 1) + " TaintToleration*7",
		"multiPoint: {enabled: [{name: TaintToleration, weight: 7}, {name: NodeAffinity}]}":           allFilters + strings.NewReplacer("TaintToleration*3", "TaintToleration*7", "NodeAffinity*2", "NodeAffinity*1").Replace(allScores),
		"multiPoint: {disabled: [{name: TaintToleration}]}":                                           strings.NewReplacer("TaintToleration ", "", " TaintToleration*3", "").Replace(allFilters + allScores),
	} {
		p := theOnly(t, mustDecode(t, policy.DecodeConfiguration, plugins(text)))
		if got := describe(p); got != "default-scheduler: "+want {
			t.Errorf("%s:\n%s, want\n%s", text, got, want)
		}
	}
}

// TestOtherPoints checks the extension points postFilter and preBind.
func TestOtherPoints(t *testing.T) {
	for text, want := range map[string]struct {
		noPreemption bool
		timeout      time.Duration
	}{
		"{}": {false, 10 * time.Minute},
		"{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}":                        {true, 10 * time.Minute},
		"{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}, {name: VolumeBinding}]}}}": {true, -1},
		"{plugins: {preBind: {disabled: [{name: '*'}]}}}":                                         {false, -1},
		"{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]}":                  {false, 5 * time.Second},
		"{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 0}}]}":                  {false, 0},
	} {
		f := mustDecode(t, policy.DecodeConfiguration, with(text))
		parts, timeout := parts()
		list, err := f.Profiles(parts)
		if err != nil {
			t.Fatal(err)
		}
		if list[0].NoPreemption != want.noPreemption || *timeout != want.timeout {
			t.Errorf("%s: no preemption %t, volumes within %v", text, list[0].NoPreemption, *timeout)
		}
	}
}

// TestApply checks what Apply changes of a configuration, and what it needs.
func TestApply(t *testing.T) {
	text := configHead + "profiles: [{schedulerName: a}, {schedulerName: b}]\npodInitialBackoffSeconds: 3"
	f := mustDecode(t, policy.DecodeConfiguration, text)
	config := schedule.Config{Name: "x", Predicates: []schedule.Predicate{nil}, Priorities: []schedule.Weighted{{}}, Parallel: 5}
	if err := f.Apply(&config, policy.Parts{}); err != nil {
		t.Fatal(err)
	}
	if len(config.Profiles) != 2 || config.Profiles[1].Name != "b" || config.Name != "" ||
		config.Predicates != nil || config.Priorities != nil || config.Parallel != 5 || config.InitialBackoff != 3*time.Second || config.MaxBackoff != 10*time.Second {
		t.Errorf("Apply() leaves Profiles %+v, Name %q, %d predicates, %d priorities, Parallel %d, InitialBackoff %v, MaxBackoff %v, "+
			"want a and b, no name, predicates and priorities, 5, 3s and 10s",
			config.Profiles, config.Name, len(config.Predicates), len(config.Priorities), config.Parallel, config.InitialBackoff,
			config.MaxBackoff)
	}
	// VolumeBinding is a default plugin, and needs a part where a file names it.
	named := mustDecode(t, policy.DecodeConfiguration, plugins("filter: {enabled: [{name: VolumeBinding}]}"))
	if err := named.Apply(&config, policy.Parts{}); err == nil || err.Error() != "profiles[0].plugins.filter.enabled[0].name: VolumeBinding is not supported here" {
		t.Errorf("without volumes: %v", err)
	}
	named = mustDecode(t, policy.DecodePolicy, policyHead+"predicates: [{name: CheckVolumeBinding}]")
	if err := named.Apply(&config, policy.Parts{}); err == nil || err.Error() != "predicates[0].name: VolumeBinding is not supported here" {
		t.Errorf("without volumes: %v", err)
	}
}

// TestWarnings checks that every field that has no effect is named.
func TestWarnings(t *testing.T) {
	for text, want := range map[string][]string{
		configHead + "parallelism: 16":                      {"parallelism"},
		configHead + "percentageOfNodesToScore: 50":         {"percentageOfNodesToScore"},
		configHead + "percentageOfNodesToScore: 0":          {"percentageOfNodesToScore"},
		configHead + "percentageOfNodesToScore: 100":        nil,
		configHead + "leaderElection: {leaderElect: false}": nil,
		configHead + "leaderElection: {leaderElect: true, leaseDuration: 20s, renewDeadline: 15s, retryPeriod: 2s, resourceLock: leases, resourceName: x, resourceNamespace: z}": {
			"leaderElection.leaderElect", "leaderElection.leaseDuration", "leaderElection.renewDeadline", "leaderElection.retryPeriod",
			"leaderElection.resourceLock", "leaderElection.resourceName", "leaderElection.resourceNamespace"},
		configHead + "clientConnection: {kubeconfig: a, acceptContentTypes: b, contentType: c, qps: 1, burst: 2}": {
			"clientConnection.kubeconfig", "clientConnection.acceptContentTypes", "clientConnection.contentType", "clientConnection.qps", "clientConnection.burst"},
		configHead + "enableProfiling: true\nenableContentionProfiling: false\ndelayCacheUntilActive: true": {
			"enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"},
		configHead + "extenders: [{urlPrefix: 'http://x'}]":                                            {"extenders[0]"},
		with("{percentageOfNodesToScore: 10}"):                                                         {"profiles[0].percentageOfNodesToScore"},
		plugins("preFilter: {disabled: [{name: NodePorts}]}"):                                          {"profiles[0].plugins.preFilter"},
		plugins("preFilter: {disabled: [{name: NodePorts}]}, filter: {disabled: [{name: NodePorts}]}"): nil,
		plugins("filter: {disabled: [{name: NodePorts}]}"):                                             nil,
		plugins("filter: {disabled: [{name: NodePorts}]}, preFilter: {enabled: [{name: NodePorts}]}"):  {"profiles[0].plugins.preFilter.enabled[0]"},
		plugins("preScore: {disabled: [{name: NodeAffinity}]}"):                                        {"profiles[0].plugins.preScore"},
		plugins("reserve: {disabled: [{name: VolumeBinding}]}"):                                        {"profiles[0].plugins.reserve"},
		plugins("preEnqueue: {disabled: [{name: SchedulingGates}]}"):                                   {"profiles[0].plugins.preEnqueue"},
		plugins("preEnqueue: {disabled: [{name: DefaultPreemption}]}"):                                 {"profiles[0].plugins.preEnqueue"},
		plugins("filter: {enabled: [{name: NodeName, weight: 2}]}"):                                    {"profiles[0].plugins.filter.enabled[0].weight"},
		plugins("multiPoint: {enabled: [{name: NodeName, weight: 2}]}"):                                {"profiles[0].plugins.multiPoint.enabled[0].weight"},
		plugins("score: {enabled: [{name: VolumeBinding}]}"):                                           {"profiles[0].plugins.score.enabled[0].name"},
		plugins("score: {disabled: [{name: SelectorSpread}]}"):                                         {"profiles[0].plugins.score.disabled[0]"},
		plugins("score: {disabled: [{name: ImageLocality, weight: 1}]}"):                               {"profiles[0].plugins.score.disabled[0].weight"},
		plugins("placementScore: {enabled: [{name: NodeResourcesFit}]}"):                               {"profiles[0].plugins.placementScore.enabled[0].name"},
		plugins("filter: {disabled: [{name: VolumeZone}]}"):                                            nil,
		plugins("filter: {disabled: [{name: DynamicResources}]}"):                                      {"profiles[0].plugins.filter.disabled[0]"},
		args("DefaultPreemption", "{minCandidateNodesPercentage: 5, minCandidateNodesAbsolute: 0}"): {
			"profiles[0].pluginConfig[0].args.minCandidateNodesPercentage", "profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute"},
		args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [x]}]}"): {
			"profiles[0].pluginConfig[0].args.defaultConstraints[0].matchLabelKeys"},
		with("{plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}, pluginConfig: [{name: NodeAffinity}]}"): {"profiles[0].pluginConfig[0]"},
	} {
		var got []string
		for _, w := range mustDecode(t, policy.DecodeConfiguration, text).Warnings() {
			name, why, _ := strings.Cut(w, " has no effect: ")
			if why == "" {
				t.Errorf("%s: warning %q", text, w)
			}
			got = append(got, name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: warnings about %q, want %q", text, got, want)
		}
	}
}

func TestConfigurationRefused(t *testing.T) {
	const strict = "strict decoding error: "
	term := func(term string) string {
		return args("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ["+term+"]}}}")
	}
	constraint := func(c string) string {
		return args("PodTopologySpread", "{defaultingType: List, defaultConstraints: ["+c+"]}")
	}
	fit := func(strategy string) string { return args("NodeResourcesFit", "{scoringStrategy: "+strategy+"}") }
	for text, want := range map[string]string{
		configHead + "paralelism: 1":                             strict + `unknown field "paralelism"`,
		configHead + "leaderElection: {leaderElects: 1}":         strict + `unknown field "leaderElection.leaderElects"`,
		configHead + "clientConnection: {burst: -1}":             "clientConnection.burst: Invalid value: -1: must be non-negative",
		configHead + "parallelism: 0":                            "parallelism: Invalid value: 0: should be an integer value greater than zero",
		configHead + "percentageOfNodesToScore: 101":             "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
		configHead + "podInitialBackoffSeconds: 0":               "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
		configHead + "podInitialBackoffSeconds: 11":              "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
		configHead + "podMaxBackoffSeconds: 9223372036854775807": "podMaxBackoffSeconds: Invalid value: 9223372036854775807: must be at most",
		configHead + "leaderElection: {leaseDuration: 5s}":       "leaderElection.leaseDuration: Invalid value: \"5s\": must be greater than `RenewDeadline`",
		configHead + "leaderElection: {retryPeriod: -5s}":        "leaderElection.retryPeriod: Invalid value: \"-5s\": must be greater than zero",
		configHead + "leaderElection: {resourceLock: endpoints}": `leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"`,
		with("{schedulerName: ''}"):                              "profiles[0].schedulerName: Required value",
		with("{}, {schedulerName: b}"):                           "profiles[0].schedulerName: Required value",
		with("{schedulerName: b}, {schedulerName: b}"):           `profiles[1].schedulerName: Duplicate value: "b"`,
		with("{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}"): "profiles[1].plugins.queueSort: Invalid value: must be the same for all profiles",
		with("{percentageOfNodesToScore: -1}"):                                                                      "profiles[0].percentageOfNodesToScore: Invalid value: -1",
		with("{plugin: {}}"):                                                                                        strict + `unknown field "profiles[0].plugin"`,
		plugins("filters: {}"):                                                                                      strict + `unknown field "profiles[0].plugins.filters"`,
		plugins("filter: {enabled: [{name: Foo}]}"):                                                                 `profiles[0].plugins.filter.enabled[0].name: Invalid value: "Foo": no plugin has this name`,
		plugins("filter: {enabled: [{name: EBSLimits}]}"):                                                           `profiles[0].plugins.filter.enabled[0].name: Invalid value: "EBSLimits": no plugin has this name`,
		plugins("filter: {enabled: [{}]}"):                                                                          "profiles[0].plugins.filter.enabled[0].name: Required value",
		plugins("filter: {disabled: [{}]}"):                                                                         "profiles[0].plugins.filter.disabled[0].name: Required value",
		plugins("filter: {enabled: [{name: ImageLocality}]}"):                                                       `profiles[0].plugins.filter.enabled[0].name: Invalid value: "ImageLocality": the plugin does not extend filter`,
		plugins("filter: {enabled: [{name: DynamicResources}]}"):                                                    "profiles[0].plugins.filter.enabled[0].name: DynamicResources is not supported",
		plugins("multiPoint: {enabled: [{name: DynamicResources}]}"):                                                "profiles[0].plugins.multiPoint.enabled[0].name: DynamicResources is not supported",
		plugins("placementScore: {enabled: [{name: PodGroupPodsCount}]}"):                                           "profiles[0].plugins.placementScore.enabled[0].name: PodGroupPodsCount is not supported",
		plugins("score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}"):                                 `profiles[0].plugins.score.enabled[1].name: Duplicate value: "ImageLocality"`,
		plugins("score: {enabled: [{name: ImageLocality, weight: -1}]}"):                                            "profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: must not be negative",
		plugins("score: {enabled: [{name: ImageLocality, weight: 2147483648}]}"):                                    "weight of type int32",
		plugins("queueSort: {disabled: [{name: '*'}]}"):                                                             `profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0`,
		plugins("bind: {disabled: [{name: DefaultBinder}]}"):                                                        `profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "default-scheduler"`,
		with("{pluginConfig: [{name: Foo}]}"):                                                                       `profiles[0].pluginConfig[0].name: Invalid value: "Foo": no plugin has this name`,
		with("{pluginConfig: [{args: {}}]}"):                                                                        "profiles[0].pluginConfig[0].name: Required value",
		with("{pluginConfig: [{name: NodeName}, {name: NodeName}]}"):                                                `profiles[0].pluginConfig[1].name: Duplicate value: "NodeName"`,
		args("DynamicResources", "{}"):                                                                              "profiles[0].pluginConfig[0].name: DynamicResources is not supported",
		args("NodeName", "{x: 1}"):                                                                                  "profiles[0].pluginConfig[0].args: NodeName has no arguments",
		args("NodeAffinity", "{x: 1}"):                                                                              `profiles[0].pluginConfig[0].args: unknown field "x"`,
		args("NodeAffinity", "{kind: PodAffinityArgs}"):                                                             `profiles[0].pluginConfig[0].args.kind: Invalid value: "PodAffinityArgs": must be NodeAffinityArgs`,
		args("NodeAffinity", "{apiVersion: v1}"):                                                                    `profiles[0].pluginConfig[0].args.apiVersion: Invalid value: "v1": must be kubescheduler.config.k8s.io/v1`,
		args("InterPodAffinity", "{hardPodAffinityWeight: 101}"):                                                    "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
		args("DefaultPreemption", "{minCandidateNodesPercentage: 101}"):                                             "args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
		args("DefaultPreemption", "{minCandidateNodesAbsolute: -1}"):                                                "args.minCandidateNodesAbsolute: Invalid value: -1",
		args("DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}"):                 "cannot be zero at the same time",
		args("VolumeBinding", "{bindTimeoutSeconds: -1}"):                                                           "args.bindTimeoutSeconds: Invalid value: -1",
		args("VolumeBinding", "{shape: []}"):                                                                        "args.shape: Forbidden: unexpected field `shape`",
		args("NodeResourcesFit", "{ignoredResources: ['-']}"):                                                       "args.ignoredResources[0]: Invalid value",
		args("NodeResourcesFit", "{ignoredResourceGroups: ['a/b']}"):                                                "args.ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
		fit("{type: Least}"):                                                                                        `args.scoringStrategy.type: Unsupported value: "Least"`,
		fit("{}"):                                                                                                   `args.scoringStrategy.type: Unsupported value: ""`,
		fit("{type: MostAllocated, resources: [{name: cpu, weight: 101}]}"):                                         "args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
		fit("{type: MostAllocated, resources: [{weight: 1}]}"):                                                      "args.scoringStrategy.resources[0].name: Required value",
		fit("{type: MostAllocated, requestedToCapacityRatio: {}}"):                                                  "args.scoringStrategy.requestedToCapacityRatio: Forbidden",
		fit("{type: RequestedToCapacityRatio}"):                                                                     "args.scoringStrategy.requestedToCapacityRatio: Required value",
		fit("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}"):                                       "args.scoringStrategy.requestedToCapacityRatio.shape: Required value",
		args("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}"):                            "args.resources[0].weight: Invalid value: 2: must be 1",
		args("NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: cpu}]}"):                          "args.resources[1].name: Duplicate value",
		term("{matchExpressions: [{key: a, operator: Is}]}"):                                                        `addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Is"`,
		term("{matchExpressions: [{key: a, operator: In}]}"):                                                        "matchExpressions[0]: Invalid value",
		term("{matchFields: [{key: a, operator: Gt}]}"):                                                             "matchFields[0].values: Invalid value",
		args("NodeAffinity", "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101}]}}"): "preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101",
		args("PodTopologySpread", "{defaultingType: Mine}"):                                                         `args.defaultingType: Unsupported value: "Mine"`,
		args("PodTopologySpread", "{defaultConstraints: [{}]}"):                                                     "args.defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty",
		constraint("{}"): "args.defaultConstraints[0].maxSkew: Invalid value: 0",
		constraint("{maxSkew: 1, topologyKey: '-', whenUnsatisfiable: Never, labelSelector: {}, nodeTaintsPolicy: Honour}"):                          "defaultConstraints[0].labelSelector: Forbidden",
		constraint("{maxSkew: 1, nodeTaintsPolicy: Honour}"):                                                                                         `defaultConstraints[0].nodeTaintsPolicy: Unsupported value: "Honour"`,
		constraint("{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}"): "args.defaultConstraints[1]: Duplicate value",
	} {
		if _, err := policy.DecodeConfiguration([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
