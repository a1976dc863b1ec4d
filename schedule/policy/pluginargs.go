package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pluginArgs are the args of a pluginConfig in a KubeSchedulerConfiguration.
type pluginArgs interface {
	// apply checks the arguments and changes a to them. It returns the names of fields without an effect, and
	// why.
	apply(a *arguments, at *field.Path) ([]idle, field.ErrorList)
	meta() *typeMeta
}

// idle is a field without an effect.
type idle struct{ field, why string }

func (m *typeMeta) meta() *typeMeta { return m }

// argsOf returns empty arguments of a plugin, or nil if it has none.
func argsOf(plugin string) pluginArgs {
	switch plugin {
	case defaultPreemption:
		return &preemptionArgs{}
	case "InterPodAffinity":
		return &podAffinityArgs{}
	case "NodeAffinity":
		return &nodeAffinityArgs{}
	case "NodeResourcesFit":
		return &fitArgs{}
	case "NodeResourcesBalancedAllocation":
		return &balancedArgs{}
	case "PodTopologySpread":
		return &spreadArgs{}
	case volumeBinding:
		return &volumeArgs{}
	}
	return nil
}

// applyArgs decodes the arguments of a plugin and changes a to them.
func applyArgs(a *arguments, plugin string, text json.RawMessage, at *field.Path) ([]idle, error) {
	args := argsOf(plugin)
	switch {
	case len(text) == 0 || string(text) == "null":
		return nil, nil
	case args == nil:
		return nil, fmt.Errorf("%s: %s has no arguments", at, plugin)
	}
	if err := decode(text, args); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	kind := plugin + "Args"
	switch m := args.meta(); {
	case m.Kind != "" && m.Kind != kind:
		return nil, field.Invalid(at.Child("kind"), m.Kind, "must be "+kind)
	case m.APIVersion != "" && m.APIVersion != configuration.APIVersion:
		return nil, field.Invalid(at.Child("apiVersion"), m.APIVersion, "must be "+configuration.APIVersion)
	}
	idle, list := args.apply(a, at)
	var errs []error
	for _, err := range list {
		errs = append(errs, err)
	}
	return idle, errors.Join(errs...)
}

type preemptionArgs struct {
	typeMeta                    `json:",inline"`
	MinCandidateNodesPercentage *int32 `json:"minCandidateNodesPercentage"`
	MinCandidateNodesAbsolute   *int32 `json:"minCandidateNodesAbsolute"`
}

func (p *preemptionArgs) apply(_ *arguments, at *field.Path) (idles []idle, errs field.ErrorList) {
	const why = "all nodes are candidates"
	percentage, absolute := int32(10), int32(100)
	if v := p.MinCandidateNodesPercentage; v != nil {
		percentage, idles = *v, append(idles, idle{"minCandidateNodesPercentage", why})
	}
	if v := p.MinCandidateNodesAbsolute; v != nil {
		absolute, idles = *v, append(idles, idle{"minCandidateNodesAbsolute", why})
	}
	if percentage < 0 || percentage > 100 {
		errs = append(errs, field.Invalid(at.Child("minCandidateNodesPercentage"), percentage, "not in valid range [0, 100]"))
	}
	if absolute < 0 {
		errs = append(errs, field.Invalid(at.Child("minCandidateNodesAbsolute"), absolute, "not in valid range [0, inf)"))
	}
	if percentage == 0 && absolute == 0 {
		errs = append(errs, field.Invalid(at.Child("minCandidateNodesPercentage"), percentage, "cannot be zero at the same time as minCandidateNodesAbsolute"))
	}
	return idles, errs
}

type podAffinityArgs struct {
	typeMeta                           `json:",inline"`
	HardPodAffinityWeight              *int32 `json:"hardPodAffinityWeight"`
	IgnorePreferredTermsOfExistingPods bool   `json:"ignorePreferredTermsOfExistingPods"`
}

func (p *podAffinityArgs) apply(a *arguments, at *field.Path) (_ []idle, errs field.ErrorList) {
	if v := p.HardPodAffinityWeight; v != nil {
		a.hardWeight = int64(*v)
		errs = checkRange(at.Child("hardPodAffinityWeight"), a.hardWeight, 0, 100)
	}
	a.onlyOwn = p.IgnorePreferredTermsOfExistingPods
	return nil, errs
}

// checkRange refuses a number below low or above high.
func checkRange(at *field.Path, value, low, high int64) field.ErrorList {
	if value < low || value > high {
		return field.ErrorList{field.Invalid(at, value, fmt.Sprintf("not in valid range [%d, %d]", low, high))}
	}
	return nil
}

type fitArgs struct {
	typeMeta              `json:",inline"`
	IgnoredResources      []string         `json:"ignoredResources"`
	IgnoredResourceGroups []string         `json:"ignoredResourceGroups"`
	ScoringStrategy       *scoringStrategy `json:"scoringStrategy"`
}

type scoringStrategy struct {
	Type                     string         `json:"type"`
	Resources                []resourceSpec `json:"resources"`
	RequestedToCapacityRatio *struct {
		Shape []shapePoint `json:"shape"`
	} `json:"requestedToCapacityRatio"`
}

type resourceSpec struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

type shapePoint struct {
	Utilization int32 `json:"utilization"`
	Score       int32 `json:"score"`
}

func (f *fitArgs) apply(a *arguments, at *field.Path) (_ []idle, errs field.ErrorList) {
	for i, name := range f.IgnoredResources {
		errs = append(errs, metav1validation.ValidateLabelName(name, at.Child("ignoredResources").Index(i))...)
	}
	for i, group := range f.IgnoredResourceGroups {
		at := at.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(at, group, "resource group name can't contain '/'"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(group, at)...)
	}
	a.ignored.Names = append(a.ignored.Names, f.IgnoredResources...)
	a.ignored.Groups = f.IgnoredResourceGroups
	if s := f.ScoringStrategy; s != nil {
		errs = append(errs, s.apply(a, at.Child("scoringStrategy"))...)
	}
	return nil, errs
}

func (s *scoringStrategy) apply(a *arguments, at *field.Path) (errs field.ErrorList) {
	if kinds := []string{leastAllocated, mostAllocated, requestedToCapacityRatio}; !slices.Contains(kinds, s.Type) {
		errs = append(errs, field.NotSupported(at.Child("type"), s.Type, kinds))
	}
	a.strategy.kind = s.Type
	var more field.ErrorList
	a.strategy.resources, more = resourcesOf(s.Resources, at.Child("resources"), 100)
	errs = append(errs, more...)
	ratio := at.Child("requestedToCapacityRatio")
	switch is := s.Type == requestedToCapacityRatio; {
	case is && s.RequestedToCapacityRatio == nil:
		errs = append(errs, field.Required(ratio, "must be specified when type is RequestedToCapacityRatio"))
	case is:
		a.strategy.shape, more = shapeOf(s.RequestedToCapacityRatio.Shape, ratio.Child("shape"))
		errs = append(errs, more...)
	case s.RequestedToCapacityRatio != nil:
		errs = append(errs, field.Forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
	}
	return errs
}

// resourcesOf returns resources with weights up to most. A weight of 0 means 1.
func resourcesOf(list []resourceSpec, at *field.Path, most int64) (resources []priorities.Resource, errs field.ErrorList) {
	for i, r := range list {
		if r.Weight < 0 || r.Weight > most {
			errs = append(errs, field.Invalid(at.Index(i).Child("weight"), r.Weight,
				fmt.Sprintf("resource weight of %s not in valid range (0, %d]", r.Name, most)))
		}
		if r.Name == "" {
			errs = append(errs, field.Required(at.Index(i).Child("name"), ""))
		}
		resources = append(resources, priorities.Resource{Name: corev1.ResourceName(r.Name), Weight: max(1, r.Weight)})
	}
	return resources, errs
}

// shapeOf returns the points of a function, from the lowest utilization to the highest.
func shapeOf(list []shapePoint, at *field.Path) (shape []priorities.Point, errs field.ErrorList) {
	if len(list) == 0 {
		return nil, field.ErrorList{field.Required(at, "at least one point must be specified")}
	}
	for i, p := range list {
		at := at.Index(i)
		if i > 0 && list[i-1].Utilization >= p.Utilization {
			errs = append(errs, field.Invalid(at.Child("utilization"), p.Utilization, "values must be sorted in increasing order"))
		}
		errs = append(errs, checkRange(at.Child("utilization"), int64(p.Utilization), 0, 100)...)
		errs = append(errs, checkRange(at.Child("score"), int64(p.Score), 0, 10)...)
		shape = append(shape, priorities.Point{Utilization: int64(p.Utilization), Score: int64(p.Score)})
	}
	return shape, errs
}

type balancedArgs struct {
	typeMeta  `json:",inline"`
	Resources []resourceSpec `json:"resources"`
}

func (b *balancedArgs) apply(a *arguments, at *field.Path) (_ []idle, errs field.ErrorList) {
	known := make(map[string]bool)
	for i, r := range b.Resources {
		at := at.Child("resources").Index(i)
		if known[r.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), r.Name))
		}
		known[r.Name] = true
		if r.Weight != 0 && r.Weight != 1 {
			errs = append(errs, field.Invalid(at.Child("weight"), r.Weight, "must be 1"))
		}
	}
	var more field.ErrorList
	a.balanced, more = resourcesOf(b.Resources, at.Child("resources"), 1<<62) // checked above
	return nil, append(errs, more...)
}

type volumeArgs struct {
	typeMeta           `json:",inline"`
	BindTimeoutSeconds *int64       `json:"bindTimeoutSeconds"`
	Shape              []shapePoint `json:"shape"`
}

func (v *volumeArgs) apply(a *arguments, at *field.Path) (_ []idle, errs field.ErrorList) {
	if s := v.BindTimeoutSeconds; s != nil {
		errs = checkRange(at.Child("bindTimeoutSeconds"), *s, 0, maxSeconds)
		a.bindTimeout = time.Duration(*s) * time.Second
	}
	if v.Shape != nil {
		errs = append(errs, field.Forbidden(at.Child("shape"), "unexpected field `shape`: the feature StorageCapacityScoring is off"))
	}
	return nil, errs
}

// maxSeconds bounds durations: 68 years.
const maxSeconds = 1<<31 - 1
