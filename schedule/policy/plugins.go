package policy

import (
	"slices"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/legacy"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
)

// plugin is a row of the table of plugins.
type plugin struct {
	name string
	// points are the extension points of the plugin in Kubernetes; none if only a Policy can name it.
	points []string
	// standard says that the plugin is in Kubernetes' default profile, with weight if it scores.
	standard bool
	weight   int32
	// first says that the predicate may refuse all nodes at once, and is asked before those that do not.
	first bool
	// builtIn says that the scheduler itself does what the plugin does.
	builtIn bool
	// predicate and priority make what the plugin is here; nil if it has none. A result of nil means that
	// a part is missing.
	predicate func(*Parts, *arguments) schedule.Predicate
	priority  func(*Parts, *arguments) schedule.Priority
}

// supported reports whether the plugin does anything here.
func (p *plugin) supported() bool { return p.builtIn || p.predicate != nil || p.priority != nil }

// The extension points of Kubernetes. Package policy acts on filter, score, postFilter, preBind, queueSort
// and bind.
const (
	preEnqueue = "preEnqueue"
	queueSort  = "queueSort"
	preFilter  = "preFilter"
	filter     = "filter"
	postFilter = "postFilter"
	preScore   = "preScore"
	score      = "score"
	reserve    = "reserve"
	permit     = "permit"
	preBind    = "preBind"
	bind       = "bind"
	postBind   = "postBind"

	placementGenerate = "placementGenerate"
	placementScore    = "placementScore"
)

// plugins is the table of plugins: first those of Kubernetes' default profile in their order, then the others
// of Kubernetes, and then those that only a Policy names.
var plugins = []plugin{
	{name: "SchedulingGates", points: []string{preEnqueue}, standard: true, builtIn: true},
	{name: "PrioritySort", points: []string{queueSort}, standard: true, builtIn: true},
	{name: "NodeUnschedulable", points: []string{filter}, standard: true, predicate: always(predicates.Unschedulable)},
	{name: "NodeName", points: []string{filter}, standard: true, predicate: always(predicates.NodeName)},
	{name: "TaintToleration", points: []string{filter, preScore, score}, standard: true, weight: 3,
		predicate: always(predicates.Taints), priority: always(priorities.Taints)},
	{name: "NodeAffinity", points: []string{preFilter, filter, preScore, score}, standard: true, weight: 2,
		predicate: func(_ *Parts, a *arguments) schedule.Predicate { return predicates.NodeSelectorAnd(a.enforced) },
		priority:  func(_ *Parts, a *arguments) schedule.Priority { return priorities.NodeAffinityAnd(a.preferred) }},
	{name: "NodePorts", points: []string{preFilter, filter}, standard: true, predicate: always(predicates.HostPorts)},
	{name: "NodeResourcesFit", points: []string{preFilter, filter, preScore, score, placementScore}, standard: true, weight: 1,
		predicate: func(_ *Parts, a *arguments) schedule.Predicate { return predicates.FitIgnoring(a.ignored) },
		priority:  func(_ *Parts, a *arguments) schedule.Priority { return a.strategy.priority() }},
	{name: "VolumeRestrictions", points: []string{preFilter, filter}, standard: true, first: true,
		predicate: func(parts *Parts, _ *arguments) schedule.Predicate { return parts.Restrictions }},
	{name: "NodeVolumeLimits", points: []string{preFilter, filter}, standard: true, first: true,
		predicate: func(parts *Parts, _ *arguments) schedule.Predicate { return parts.Limits }},
	{name: volumeBinding, points: []string{preFilter, filter, preScore, score, reserve, preBind}, standard: true,
		predicate: func(parts *Parts, _ *arguments) schedule.Predicate {
			if parts.Volumes == nil {
				return nil
			}
			return parts.Volumes
		}},
	{name: "VolumeZone", points: []string{preFilter, filter}, standard: true, first: true,
		predicate: func(parts *Parts, _ *arguments) schedule.Predicate { return parts.Zone }},
	{name: "PodTopologySpread", points: []string{preFilter, filter, preScore, score}, standard: true, weight: 2,
		predicate: func(parts *Parts, a *arguments) schedule.Predicate { return predicates.TopologySpread(a.spread(parts)) },
		priority:  func(parts *Parts, a *arguments) schedule.Priority { return priorities.TopologySpread(a.spread(parts)) }},
	{name: "InterPodAffinity", points: []string{preFilter, filter, preScore, score}, standard: true, weight: 2,
		predicate: always(predicates.PodAffinity), priority: podAffinity},
	{name: "DynamicResources", points: []string{preEnqueue, preFilter, filter, postFilter, score, reserve, preBind}, standard: true, weight: 2},
	{name: defaultPreemption, points: []string{preEnqueue, postFilter}, standard: true, builtIn: true},
	{name: "NodeResourcesBalancedAllocation", points: []string{preScore, score}, standard: true, weight: 1,
		priority: func(_ *Parts, a *arguments) schedule.Priority { return priorities.BalancedAllocation(a.balanced...) }},
	{name: "ImageLocality", points: []string{score}, standard: true, weight: 1, priority: always(priorities.ImageLocality)},
	{name: "DefaultBinder", points: []string{bind}, standard: true, builtIn: true},

	{name: "NodeDeclaredFeatures", points: []string{preFilter, filter}},
	{name: "GangScheduling", points: []string{preEnqueue, permit}},
	{name: "TopologyPlacementGenerator", points: []string{placementGenerate}},
	{name: "PodGroupPodsCount", points: []string{placementScore}},

	{name: "NodeResourcesLeastAllocated", priority: func(*Parts, *arguments) schedule.Priority { return priorities.LeastAllocated() }},
	{name: "NodeResourcesMostAllocated", priority: func(*Parts, *arguments) schedule.Priority { return priorities.MostAllocated() }},
	{name: "RequestedToCapacityRatio", priority: func(_ *Parts, a *arguments) schedule.Priority { return a.strategy.priority() }},
	{name: "NodeLabel", priority: labelPreferences,
		predicate: func(_ *Parts, a *arguments) schedule.Predicate {
			return legacy.NodeLabels(a.labels.present, a.labels.absent)
		}},
	{name: "ServiceAffinity", predicate: serviceAffinityOf, priority: serviceAntiAffinityOf},
	{name: "NodePreferAvoidPods", priority: always(legacy.PreferAvoidPods)},
	{name: "EBSLimits"},
	{name: "GCEPDLimits"},
	{name: "AzureDiskLimits"},
	{name: "CinderLimits"},
}

// The plugins that do more than to filter and to score.
const (
	volumeBinding     = "VolumeBinding"
	defaultPreemption = "DefaultPreemption"
)

// pluginOf returns the row of a plugin, or nil.
func pluginOf(name string) *plugin {
	if i := slices.IndexFunc(plugins, func(p plugin) bool { return p.name == name }); i >= 0 {
		return &plugins[i]
	}
	return nil
}

// always is the constructor of a predicate or priority that needs nothing.
func always[T any](make func() T) func(*Parts, *arguments) T {
	return func(*Parts, *arguments) T { return make() }
}

func podAffinity(_ *Parts, a *arguments) schedule.Priority {
	if a.onlyOwn {
		return priorities.PodAffinityOwn(a.hardWeight)
	}
	return priorities.PodAffinityWeighted(a.hardWeight)
}
