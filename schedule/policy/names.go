package policy

import "slices"

// predicateName is a name of a predicate in a Policy.
type predicateName struct {
	name    string
	plugins []string
	// standard says that a Policy without predicates has it, and mandatory that every Policy has.
	standard, mandatory bool
	// argument is the field of the argument that it has.
	argument string
}

// predicateNames are the names of predicates, in the order in which they are asked.
var predicateNames = []predicateName{
	{name: "CheckNodeUnschedulable", plugins: []string{"NodeUnschedulable"}, standard: true, mandatory: true},
	{name: "GeneralPredicates", plugins: []string{"NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"}, standard: true},
	{name: "HostName", plugins: []string{"NodeName"}},
	{name: "PodFitsHostPorts", plugins: []string{"NodePorts"}},
	{name: "PodFitsPorts", plugins: []string{"NodePorts"}},
	{name: "MatchNodeSelector", plugins: []string{"NodeAffinity"}},
	{name: "PodFitsResources", plugins: []string{"NodeResourcesFit"}},
	{name: "NoDiskConflict", plugins: []string{"VolumeRestrictions"}, standard: true},
	{name: "PodToleratesNodeTaints", plugins: []string{"TaintToleration"}, standard: true, mandatory: true},
	{name: "CheckNodeLabelPresence", plugins: []string{"NodeLabel"}, argument: labelsPresence},
	{name: "CheckServiceAffinity", plugins: []string{"ServiceAffinity"}, argument: serviceAffinity},
	{name: "MaxEBSVolumeCount", plugins: []string{"EBSLimits"}, standard: true},
	{name: "MaxGCEPDVolumeCount", plugins: []string{"GCEPDLimits"}, standard: true},
	{name: "MaxCSIVolumeCountPred", plugins: []string{"NodeVolumeLimits"}, standard: true},
	{name: "MaxAzureDiskVolumeCount", plugins: []string{"AzureDiskLimits"}, standard: true},
	{name: "MaxCinderVolumeCount", plugins: []string{"CinderLimits"}},
	{name: "CheckVolumeBinding", plugins: []string{volumeBinding}, standard: true},
	{name: "NoVolumeZoneConflict", plugins: []string{"VolumeZone"}, standard: true},
	{name: "EvenPodsSpread", plugins: []string{"PodTopologySpread"}, standard: true},
	{name: "MatchInterPodAffinity", plugins: []string{"InterPodAffinity"}, standard: true},
}

// priorityName is a name of a priority in a Policy.
type priorityName struct {
	name string
	// plugin is empty if all nodes have the same score.
	plugin string
	// standard is the weight in a Policy without priorities; zero means that it is not there.
	standard int64
	// argument is the field of the argument that it has.
	argument string
}

// priorityNames are the names of priorities. Where two of them are of one plugin, it has the weight of the
// first, as in Kubernetes.
var priorityNames = []priorityName{
	{name: "BalancedResourceAllocation", plugin: "NodeResourcesBalancedAllocation", standard: 1},
	{name: "EqualPriority"},
	{name: evenPodsSpread, plugin: "PodTopologySpread", standard: 2},
	{name: "ImageLocalityPriority", plugin: "ImageLocality", standard: 1},
	{name: "InterPodAffinityPriority", plugin: "InterPodAffinity", standard: 1},
	{name: "LeastRequestedPriority", plugin: "NodeResourcesLeastAllocated", standard: 1},
	{name: "MostRequestedPriority", plugin: "NodeResourcesMostAllocated"},
	{name: "NodeAffinityPriority", plugin: "NodeAffinity", standard: 1},
	{name: "NodePreferAvoidPodsPriority", plugin: "NodePreferAvoidPods", standard: 10000},
	{name: "RequestedToCapacityRatioPriority", plugin: "RequestedToCapacityRatio", argument: ratioArguments},
	{name: selectorSpread, plugin: "PodTopologySpread", standard: 1},
	{name: serviceSpreading, plugin: "PodTopologySpread"},
	{name: "TaintTolerationPriority", plugin: "TaintToleration", standard: 1},
}

const (
	evenPodsSpread   = "EvenPodsSpreadPriority"
	selectorSpread   = "SelectorSpreadPriority"
	serviceSpreading = "ServiceSpreadingPriority" // the former name of selectorSpread
)

// The fields of arguments. A predicate or priority with any other name is that of its argument.
const (
	labelsPresence      = "labelsPresence"
	serviceAffinity     = "serviceAffinity"
	labelPreference     = "labelPreference"
	serviceAntiAffinity = "serviceAntiAffinity"
	ratioArguments      = "requestedToCapacityRatioArguments"
)

// nameOfArgument are the names of predicates by their arguments, and pluginOfArgument the plugins of priorities.
var (
	nameOfArgument   = map[string]string{labelsPresence: "CheckNodeLabelPresence", serviceAffinity: "CheckServiceAffinity"}
	pluginOfArgument = map[string]string{
		labelPreference: "NodeLabel", serviceAntiAffinity: "ServiceAffinity", ratioArguments: "RequestedToCapacityRatio",
	}
)

func predicateOf(name string) *predicateName {
	if i := slices.IndexFunc(predicateNames, func(p predicateName) bool { return p.name == name }); i >= 0 {
		return &predicateNames[i]
	}
	return nil
}

func priorityOf(name string) *priorityName {
	if i := slices.IndexFunc(priorityNames, func(p priorityName) bool { return p.name == name }); i >= 0 {
		return &priorityNames[i]
	}
	return nil
}
