package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// policyFile is a Policy.
type policyFile struct {
	typeMeta                       `json:",inline"`
	Predicates                     []predicatePolicy `json:"predicates"`
	Priorities                     []priorityPolicy  `json:"priorities"`
	Extenders                      []json.RawMessage `json:"extenders"`
	HardPodAffinitySymmetricWeight int64             `json:"hardPodAffinitySymmetricWeight"`
	AlwaysCheckAllPredicates       bool              `json:"alwaysCheckAllPredicates"`
}

type predicatePolicy struct {
	Name     string             `json:"name"`
	Argument *predicateArgument `json:"argument"`
}

type predicateArgument struct {
	ServiceAffinity *struct {
		Labels []string `json:"labels"`
	} `json:"serviceAffinity"`
	LabelsPresence *struct {
		Labels   []string `json:"labels"`
		Presence bool     `json:"presence"`
	} `json:"labelsPresence"`
}

type priorityPolicy struct {
	Name     string            `json:"name"`
	Weight   int64             `json:"weight"`
	Argument *priorityArgument `json:"argument"`
}

type priorityArgument struct {
	ServiceAntiAffinity *struct {
		Label string `json:"label"`
	} `json:"serviceAntiAffinity"`
	LabelPreference *struct {
		Label    string `json:"label"`
		Presence bool   `json:"presence"`
	} `json:"labelPreference"`
	RequestedToCapacityRatioArguments *struct {
		Shape     []shapePoint   `json:"shape"`
		Resources []resourceSpec `json:"resources"`
	} `json:"requestedToCapacityRatioArguments"`
}

// DecodePolicy reads a Policy of v1, in JSON or YAML. Its profile is that of default-scheduler.
func DecodePolicy(data []byte) (*File, error) {
	text, err := open(data, typeMeta{APIVersion: "v1", Kind: "Policy"})
	if err != nil {
		return nil, err
	}
	var given policyFile
	if err := decode(text, &given); err != nil {
		return nil, fmt.Errorf("strict decoding error: %w", err)
	}
	f := &File{}
	var errs []error
	var extenders []Extender
	for i, text := range given.Extenders {
		e, err := legacyExtender(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("extenders[%d]: %w", i, err))
		}
		extenders = append(extenders, e)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	ignored, list := f.addExtenders(extenders)
	p := profile{name: corev1.DefaultSchedulerName, args: defaultArguments(), named: make(map[string]string), preempts: true}
	p.args.ignored.Names = ignored
	hard := field.NewPath("hardPodAffinitySymmetricWeight")
	list = append(list, checkRange(hard, given.HardPodAffinitySymmetricWeight, 0, 100)...)
	if w := given.HardPodAffinitySymmetricWeight; w != 0 {
		p.args.hardWeight = w
	}
	if given.AlwaysCheckAllPredicates {
		f.warn(field.NewPath("alwaysCheckAllPredicates"), "the reasons are those of the first predicate that refuses a node")
	}
	err = errors.Join(joined(list), f.addPredicates(&p, given.Predicates), f.addPriorities(&p, given.Priorities))
	if err != nil {
		return nil, err
	}
	f.profiles = []profile{p}
	return f, nil
}

// addPredicates adds the predicates of a Policy to a profile. Nil means the default ones.
func (f *File) addPredicates(p *profile, list []predicatePolicy) error {
	all := field.NewPath("predicates")
	chosen := make(map[string]bool) // names in the table
	var errs []error
	for i := range list {
		name, err := list[i].choose(p, all.Index(i))
		errs = append(errs, err)
		chosen[name] = true
	}
	var missing []string
	for _, row := range predicateNames {
		switch {
		case !chosen[row.name] && !row.mandatory && (list != nil || !row.standard):
			continue
		case pluginOf(row.plugins[0]).predicate == nil:
			missing = append(missing, row.name)
			continue
		}
		for _, name := range row.plugins {
			if !slices.Contains(p.filters, name) {
				p.filters = append(p.filters, name)
			}
		}
	}
	if list == nil {
		f.warnMissing(all, missing)
	}
	p.binds = slices.Contains(p.filters, volumeBinding)
	return errors.Join(errs...)
}

// warnMissing notes which of the default predicates or priorities of a Policy there are not.
func (f *File) warnMissing(at *field.Path, names []string) {
	if len(names) > 0 {
		f.warnings = append(f.warnings, fmt.Sprintf("%s is not set, and of the default ones these are not supported: %s", at, strings.Join(names, ", ")))
	}
}

// choose checks a predicate, adds its argument to those of p, and returns its name in the table.
func (g *predicatePolicy) choose(p *profile, at *field.Path) (string, error) {
	argument := ""
	if a := g.Argument; a != nil {
		switch {
		case (a.LabelsPresence == nil) == (a.ServiceAffinity == nil):
			return "", fmt.Errorf("%s: exactly 1 predicate argument is required", at.Child("argument"))
		case a.LabelsPresence == nil:
			argument = serviceAffinity
			p.args.labels.together = append(p.args.labels.together, a.ServiceAffinity.Labels...)
		case a.LabelsPresence.Presence:
			argument = labelsPresence
			p.args.labels.present = append(p.args.labels.present, a.LabelsPresence.Labels...)
		default:
			argument = labelsPresence
			p.args.labels.absent = append(p.args.labels.absent, a.LabelsPresence.Labels...)
		}
	}
	row := predicateOf(g.Name)
	if row == nil && argument != "" {
		row = predicateOf(nameOfArgument[argument])
	}
	if row == nil {
		return "", unknownName(at, "predicate", g.Name)
	}
	if err := checkArgument(at, g.Name, row.argument, argument); err != nil {
		return "", err
	}
	for _, name := range row.plugins {
		if pluginOf(name).predicate == nil {
			return "", fmt.Errorf("%s: %s is not supported", at.Child("name"), g.Name)
		}
		p.named[name] = at.Child("name").String()
	}
	return row.name, nil
}

func unknownName(at *field.Path, what, name string) error {
	if name == "" {
		return field.Required(at.Child("name"), "")
	}
	return field.Invalid(at.Child("name"), name, "no "+what+" has this name")
}

// checkArgument checks that what has a name has the argument for it. Both are fields, or empty.
func checkArgument(at *field.Path, name, want, have string) error {
	switch {
	case want == have:
		return nil
	case have != "":
		return field.Forbidden(at.Child("argument", have), name+" does not have it")
	}
	return field.Required(at.Child("argument", want), "")
}

// addPriorities adds the priorities of a Policy to a profile. Nil means the default ones.
func (f *File) addPriorities(p *profile, list []priorityPolicy) error {
	all := field.NewPath("priorities")
	weights := make(map[string]int64) // by plugin
	p.args.constraints = []corev1.TopologySpreadConstraint{}
	if list == nil {
		p.args.constraints = nil
		var missing []string
		for _, row := range priorityNames {
			switch known := weights[row.plugin]; {
			case row.standard == 0 || known != 0:
			case pluginOf(row.plugin).priority == nil:
				missing = append(missing, row.name)
			default:
				weights[row.plugin] = row.standard
			}
		}
		f.warnMissing(all, missing)
	}
	var errs []error
	seen := make(map[string]int64) // the weights by name, or argument
	for i := range list {
		errs = append(errs, list[i].choose(p, all.Index(i), seen, weights))
	}
	if w, ok := seen[evenPodsSpread]; ok {
		weights["PodTopologySpread"] = w
	}
	for _, row := range plugins { // in a fixed order
		if w := weights[row.name]; w > 0 {
			p.scores = append(p.scores, scored{row.name, w})
		}
	}
	return errors.Join(errs...)
}

// choose checks a priority, adds its argument to those of p, and sets the weight of its plugin. seen has the
// weights of the ones before by name, or by argument.
func (g *priorityPolicy) choose(p *profile, at *field.Path, seen, weights map[string]int64) error {
	if err := joined(checkRange(at.Child("weight"), g.Weight, 1, math.MaxInt32)); err != nil {
		return err
	}
	argument, err := g.Argument.apply(p, at.Child("argument"))
	if err != nil {
		return err
	}
	row := priorityOf(g.Name)
	key, plugin, want := g.Name, "", ""
	switch {
	case row != nil:
		plugin, want = row.plugin, row.argument
	case argument != "":
		key, plugin, want = argument, pluginOfArgument[argument], argument
	default:
		return unknownName(at, "priority", g.Name)
	}
	if err := checkArgument(at, g.Name, want, argument); err != nil {
		return err
	}
	switch key {
	case serviceSpreading:
		key = selectorSpread
	case "RequestedToCapacityRatioPriority":
		key = ratioArguments
	}
	before, again := seen[key]
	seen[key] = g.Weight
	repeats := argument == labelPreference || argument == serviceAntiAffinity
	switch {
	case again && !repeats:
		return field.Duplicate(at.Child("name"), g.Name)
	case again && before != g.Weight:
		return field.Invalid(at.Child("weight"), g.Weight, fmt.Sprintf("all priorities with %s must have the same weight", argument))
	case plugin == "":
		return nil
	case pluginOf(plugin).priority == nil:
		return fmt.Errorf("%s: %s is not supported", at.Child("name"), g.Name)
	}
	if key == selectorSpread {
		p.args.constraints = nil
	}
	weights[plugin] += g.Weight
	return nil
}

// apply checks an argument, which may be nil, and adds it to those of p. It returns the name of its field.
func (a *priorityArgument) apply(p *profile, at *field.Path) (string, error) {
	if a == nil {
		return "", nil
	}
	var found []string
	if s := a.ServiceAntiAffinity; s != nil {
		found = append(found, serviceAntiAffinity)
		p.args.labels.apart = append(p.args.labels.apart, s.Label)
	}
	if l := a.LabelPreference; l != nil {
		found = append(found, labelPreference)
		if l.Presence {
			p.args.labels.likes = append(p.args.labels.likes, l.Label)
		} else {
			p.args.labels.dislikes = append(p.args.labels.dislikes, l.Label)
		}
	}
	var errs field.ErrorList
	if r := a.RequestedToCapacityRatioArguments; r != nil {
		found = append(found, ratioArguments)
		at := at.Child(ratioArguments)
		shape, more := shapeOf(r.Shape, at.Child("shape"))
		resources, wrong := resourcesOf(r.Resources, at.Child("resources"), math.MaxInt32)
		errs = append(more, wrong...)
		p.args.strategy = strategy{kind: requestedToCapacityRatio, resources: resources, shape: shape}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: exactly 1 priority argument is required", at)
	}
	return found[0], joined(errs)
}
