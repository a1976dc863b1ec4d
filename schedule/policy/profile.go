package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// profile says which plugins schedule the pods of one schedulerName.
type profile struct {
	name string
	args arguments
	// filters and scores are the plugins with a predicate or a priority, in their order.
	filters []string
	scores  []scored
	// named are plugins that the file enables by name, with the path there.
	named map[string]string
	// preempts says whether pods preempt others, and binds whether VolumeBinding binds volumes.
	preempts, binds bool
}

// scored is a plugin with a weight.
type scored struct {
	name   string
	weight int64
}

// build makes the predicates and priorities of a profile.
func (p *profile) build(parts *Parts) (schedule.Profile, error) {
	made := schedule.Profile{
		Name: p.name, NoPreemption: !p.preempts,
		Predicates: []schedule.Predicate{predicates.Unsupported()},
	}
	for _, name := range slices.Sorted(maps.Keys(p.named)) {
		if row := pluginOf(name); row.predicate != nil && row.predicate(parts, &p.args) == nil {
			return made, fmt.Errorf("%s: %s is not supported here", p.named[name], name)
		}
	}
	// A volume that no node can have is the reason for all of them, so volumes are looked at first.
	var first []schedule.Predicate
	for _, name := range p.filters {
		row := pluginOf(name)
		switch predicate := row.predicate(parts, &p.args); {
		case predicate == nil:
		case name == volumeBinding:
			first = append(first, parts.Volumes.Within(p.bindTimeout()))
		case row.first:
			first = append(first, predicate)
		default:
			made.Predicates = append(made.Predicates, predicate)
		}
	}
	made.Predicates = append(first, made.Predicates...)
	for _, s := range p.scores {
		row := pluginOf(s.name)
		switch priority := row.priority(parts, &p.args); {
		case priority != nil:
			made.Priorities = append(made.Priorities, schedule.Weighted{Priority: priority, Weight: s.weight})
		case row.points == nil: // the file names it
			return made, fmt.Errorf("priorities: %s is not supported here", s.name)
		}
	}
	return made, nil
}

// bindTimeout returns how long VolumeBinding waits; it is negative if volumes are not bound.
func (p *profile) bindTimeout() time.Duration {
	if !p.binds {
		return -1
	}
	return p.args.bindTimeout
}

// addProfiles checks profiles and adds them to f. ignored are resources that extenders look after.
func (f *File) addProfiles(list []schedulerProfile, ignored []string) error {
	if len(list) == 0 {
		list = make([]schedulerProfile, 1)
	}
	var errs []error
	all := field.NewPath("profiles")
	for i := range list {
		given, at := &list[i], all.Index(i)
		p := profile{args: defaultArguments(), named: make(map[string]string)}
		p.args.ignored.Names = slices.Clone(ignored)
		switch {
		case given.SchedulerName != nil:
			p.name = *given.SchedulerName
		case len(list) == 1:
			p.name = corev1.DefaultSchedulerName
		}
		name := at.Child("schedulerName")
		if p.name == "" {
			errs = append(errs, field.Required(name, ""))
		} else if j := slices.IndexFunc(f.profiles, func(other profile) bool { return other.name == p.name }); j >= 0 {
			errs = append(errs, field.Duplicate(name, p.name))
		}
		if partial(given.PercentageOfNodesToScore) {
			f.warn(at.Child("percentageOfNodesToScore"), allNodes)
		}
		errs = append(errs, joined(checkPercentage(at.Child("percentageOfNodesToScore"), given.PercentageOfNodesToScore)),
			checkSort(&list[0].Plugins.QueueSort, &given.Plugins.QueueSort, at.Child("plugins", queueSort)),
			f.choosePlugins(&p, &given.Plugins, at.Child("plugins")), f.configure(&p, given, at.Child("pluginConfig")))
		f.profiles = append(f.profiles, p)
	}
	return errors.Join(errs...)
}

// checkSort refuses a set for queueSort that differs from that of the first profile: all have one queue.
func checkSort(first, other *pluginSet, at *field.Path) error {
	same := func(a, b pluginRef) bool { return a.Name == b.Name && a.given() == b.given() }
	if slices.EqualFunc(first.Enabled, other.Enabled, same) && slices.EqualFunc(first.Disabled, other.Disabled, same) {
		return nil
	}
	return field.Invalid(at, field.OmitValueType{}, "must be the same for all profiles")
}

// configure reads the arguments of plugins.
func (f *File) configure(p *profile, given *schedulerProfile, at *field.Path) error {
	var errs []error
	known := make(map[string]bool)
	for i, c := range given.PluginConfig {
		at := at.Index(i)
		switch row := pluginOf(c.Name); {
		case c.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case known[c.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		case row == nil || row.points == nil:
			errs = append(errs, unknownPlugin(at.Child("name"), c.Name))
		case !row.supported():
			errs = append(errs, fmt.Errorf("%s: %s is not supported", at.Child("name"), c.Name))
		default:
			idles, err := applyArgs(&p.args, c.Name, c.Args, at.Child("args"))
			errs = append(errs, err)
			for _, idle := range idles {
				f.warn(at.Child("args").Child(idle.field), idle.why)
			}
			if !given.Plugins.enables(c.Name) {
				f.warn(at, "the profile does not enable "+c.Name)
			}
		}
		known[c.Name] = true
	}
	return errors.Join(errs...)
}

// enables reports whether a plugin is at any extension point.
func (s *pluginSets) enables(name string) bool {
	return slices.ContainsFunc(s.byPoint(), func(p pointSet) bool { return hasRef(s.at(p.point, p.set), name) })
}

func unknownPlugin(at *field.Path, name string) error {
	return field.Invalid(at, name, "no plugin has this name")
}
