package schedule_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/schedule/policy"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

var files = flag.Int("files", 500, "how many random configurations are compared")

// chance is a source of random configurations.
type chance struct{ *rand.Rand }

// pick returns one of the values.
func pick[T any](c chance, values ...T) T { return values[c.IntN(len(values))] }

// supported are the plugins that files enable by name.
var supported = []string{
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
	names.PodTopologySpread, names.InterPodAffinity, names.NodeResourcesBalancedAllocation, names.ImageLocality,
	names.DefaultPreemption, names.DefaultBinder, names.PrioritySort, names.SchedulingGates,
}

// list returns plugins, of which each has a weight in weighted of 10 cases.
func (c chance) list(from []string, most, weighted int) []any {
	var list []any
	for range c.IntN(most + 1) {
		p := map[string]any{"name": pick(c, from...)}
		if c.IntN(10) < weighted {
			p["weight"] = c.IntN(5)
		}
		list = append(list, p)
	}
	return list
}

// at are the plugins that extend a point.
func at(point string) []string {
	return slices.DeleteFunc(slices.Clone(supported), func(name string) bool { return !kinds[name].Implements(points[point]) })
}

// sets returns what a profile says about extension points.
func (c chance) sets() map[string]any {
	sets := make(map[string]any)
	set := func(point string, from []string) {
		s := make(map[string]any)
		if enabled := c.list(from, 3, 4); len(enabled) > 0 {
			s["enabled"] = enabled
		}
		off := c.list(append(slices.Clone(from), names.VolumeZone), 2, 0)
		if c.IntN(6) == 0 {
			off = append(off, map[string]any{"name": "*"})
		}
		if len(off) > 0 {
			s["disabled"] = off
		}
		sets[point] = s
	}
	for _, point := range []string{"filter", "score"} {
		if c.IntN(2) == 0 {
			set(point, at(point))
		}
	}
	if c.IntN(3) == 0 {
		set("multiPoint", supported)
		// kube-scheduler refuses a plugin that is there twice, unless another set replaces it.
		if list, ok := sets["multiPoint"].(map[string]any)["enabled"].([]any); ok {
			sets["multiPoint"].(map[string]any)["enabled"] = slices.CompactFunc(list[:min(2, len(list))], func(a, b any) bool {
				return a.(map[string]any)["name"] == b.(map[string]any)["name"]
			})
		}
	}
	if point := pick(c, slices.Sorted(maps.Keys(points))...); c.IntN(4) == 0 {
		set(point, append(at(point), pick(c, supported...)))
	}
	return sets
}

// arguments returns random arguments of a plugin, which may be wrong.
func (c chance) arguments() map[string]any {
	number := func() any { return pick[any](c, -1, 0, 1, 2, 50, 100, 101) }
	resources := func() any {
		var list []any
		for range c.IntN(3) {
			list = append(list, map[string]any{"name": pick(c, "cpu", "memory", "example.com/gpu"), "weight": number()})
		}
		return list
	}
	shape := func() any {
		var list []any
		for range c.IntN(3) {
			list = append(list, map[string]any{"utilization": number(), "score": pick[any](c, -1, 0, 5, 10, 11)})
		}
		return list
	}
	requirement := func() any {
		values := pick(c, nil, []string{"a"}, []string{"a", "b"}, []string{"7"})
		return map[string]any{"key": pick(c, "metadata.name", "zone", "-"), "operator": pick(c, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Is"), "values": values}
	}
	term := func() any {
		return map[string]any{pick(c, "matchExpressions", "matchExpressions", "none"): []any{requirement()}}
	}
	constraint := func() any {
		return map[string]any{"maxSkew": number(), "topologyKey": pick(c, "zone", "rack", "", "-"),
			"whenUnsatisfiable": pick(c, "DoNotSchedule", "ScheduleAnyway", "DoNotSchedule", "", "Never")}
	}
	plugin, args := names.NodeResourcesFit, map[string]any{}
	switch c.IntN(7) {
	case 0:
		strategy := map[string]any{"type": pick(c, "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio", "Most"), "resources": resources()}
		if c.IntN(3) == 0 {
			strategy["requestedToCapacityRatio"] = map[string]any{"shape": shape()}
		}
		args["scoringStrategy"] = strategy
	case 1:
		args["ignoredResources"], args["ignoredResourceGroups"] = []string{pick(c, "example.com/gpu", "cpu", "-", "a/b/c")}, []string{pick(c, "example.com", "a/b", "-")}
	case 2:
		plugin, args["hardPodAffinityWeight"] = names.InterPodAffinity, number()
	case 3:
		plugin, args["resources"] = names.NodeResourcesBalancedAllocation, resources()
	case 4:
		plugin, args["minCandidateNodesPercentage"], args["minCandidateNodesAbsolute"] = names.DefaultPreemption, number(), number()
	case 5:
		plugin = names.NodeAffinity
		args["addedAffinity"] = map[string]any{
			"requiredDuringSchedulingIgnoredDuringExecution":  map[string]any{"nodeSelectorTerms": []any{term()}},
			"preferredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{"weight": pick(c, 1, 50), "preference": term()}},
		}
	case 6:
		plugin = names.PodTopologySpread
		args["defaultingType"] = pick(c, "List", "List", "System", "", "Mine")
		var list []any
		for range c.IntN(3) {
			list = append(list, constraint())
		}
		args["defaultConstraints"] = list
	}
	return map[string]any{"name": plugin, "args": args}
}

// file returns a configuration with one or two profiles.
func (c chance) file() string {
	var profiles []any
	for i := range pick(c, 1, 1, 1, 2) {
		p := map[string]any{}
		if c.IntN(4) > 0 {
			p["schedulerName"] = pick(c, "default-scheduler", fmt.Sprint("other-", i))
		}
		if c.IntN(2) == 0 {
			p["plugins"] = c.sets()
		}
		if c.IntN(2) == 0 {
			args := c.arguments()
			p["pluginConfig"] = []any{args}
			if args["name"] == names.NodeResourcesFit {
				delete(p, "plugins") // kube-scheduler checks these arguments only where the plugin is enabled
			}
		}
		profiles = append(profiles, p)
	}
	fields := map[string]any{"profiles": profiles}
	more := map[string]any{
		"parallelism": pick(c, 0, 1, 16), "percentageOfNodesToScore": pick(c, -1, 0, 100, 101),
		"podInitialBackoffSeconds": pick(c, 0, 1, 11), "podMaxBackoffSeconds": pick(c, 0, 1, 10, 11),
		"clientConnection": map[string]any{"burst": pick(c, -1, 0, 7)},
		"leaderElection": map[string]any{"leaderElect": pick(c, true, false), "leaseDuration": pick(c, "0s", "5s", "20s"),
			"renewDeadline": pick(c, "0s", "-1s", "30s"), "retryPeriod": pick(c, "0s", "-1s", "1s"), "resourceLock": pick(c, "", "leases", "endpoints")},
		"extenders": []any{map[string]any{"urlPrefix": "http://x", pick(c, "filterVerb", "prioritizeVerb", "bindVerb"): "v", "weight": pick(c, 0, 1),
			"managedResources": []any{map[string]any{"name": pick(c, "example.com/a", "cpu", "kubernetes.io/a", "requests.a.b/c", "-")}}}},
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if c.IntN(16) == 0 {
			fields[name] = more[name]
		}
	}
	return configuration(fields)
}

// unnamed is a plugin that does nothing.
type unnamed struct{ name string }

func (u unnamed) Name() string { return u.name }

// stockProfiles returns the plugins at filter and score of each profile, and whether it preempts, as kube-scheduler
// has them.
func stockProfiles(t *testing.T, registry frameworkruntime.Registry, options []frameworkruntime.Option, text string) (string, error) {
	c, err := stockConfiguration(text)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for i := range c.Profiles {
		f, err := frameworkruntime.NewFramework(t.Context(), registry, &c.Profiles[i], options...)
		if err != nil {
			return "", err
		}
		list := f.ListPlugins()
		var filters, scores []string
		for _, p := range list.Filter.Enabled {
			if slices.Contains(supported, p.Name) {
				filters = append(filters, p.Name)
			}
		}
		for _, p := range list.Score.Enabled {
			name := p.Name
			if name == names.NodeResourcesFit {
				name = "fit"
			}
			if slices.Contains(supported, p.Name) {
				scores = append(scores, fmt.Sprintf("%s*%d", name, p.Weight))
			}
		}
		preempts := slices.ContainsFunc(list.PostFilter.Enabled, func(p config.Plugin) bool { return p.Name == names.DefaultPreemption })
		fmt.Fprintln(&all, c.Profiles[i].SchedulerName, filters, scores, preempts)
	}
	return all.String(), nil
}

// profilesOf returns what stockProfiles returns, as planekit has it.
func profilesOf(text string) (string, error) {
	file, err := policy.DecodeConfiguration([]byte(text))
	if err != nil {
		return "", err
	}
	profiles, err := file.Profiles(policy.Parts{})
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, p := range profiles {
		var filters, scores []string
		for _, predicate := range p.Predicates[1:] { // the first is Unsupported
			filters = append(filters, predicate.Name())
		}
		for _, w := range p.Priorities {
			name := w.Name()
			if slices.Contains([]string{"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"}, name) {
				name = "fit"
			}
			scores = append(scores, fmt.Sprintf("%s*%d", name, w.Weight))
		}
		fmt.Fprintln(&all, p.Name, filters, scores, !p.NoPreemption)
	}
	return all.String(), nil
}

// TestSameProfiles compares random configurations: both schedulers refuse the same ones, and the profiles of the
// others have the same plugins in the same order, with the same weights.
func TestSameProfiles(t *testing.T) {
	metrics.Register()
	registry := plugins.NewInTreeRegistry()
	registry[names.DynamicResources] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return unnamed{names.DynamicResources}, nil // it needs more than the others
	}
	api := fake.NewClientset()
	options := []frameworkruntime.Option{
		frameworkruntime.WithPodNominator(noNominations{}), frameworkruntime.WithSnapshotSharedLister(schedulercache.NewEmptySnapshot()),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(api, 0)), frameworkruntime.WithClientSet(api),
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	t.Logf("seed %d", first)
	accepted := 0
	for n := range uint64(*files) {
		text := chance{rand.New(rand.NewPCG(first+n, 0))}.file()
		want, refusal := stockProfiles(t, registry, options, text)
		got, err := profilesOf(text)
		if (err == nil) != (refusal == nil) || got != want {
			t.Fatalf("seed %d: %s\nis\n%s%v\nbut for kube-scheduler\n%s%v", first+n, text, got, err, want, refusal)
		}
		if err == nil {
			accepted++
		}
	}
	if accepted < *files/5 || accepted > *files*4/5 {
		t.Errorf("%d of %d files are valid", accepted, *files)
	}
}
