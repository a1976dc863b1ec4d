package policy

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// choosePlugins checks what a file says about extension points, and sets what the profile does there.
func (f *File) choosePlugins(p *profile, sets *pluginSets, at *field.Path) error {
	var errs []error
	for _, s := range sets.byPoint() {
		errs = append(errs, f.checkSet(p, s, at.Child(s.point)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	chosen := make(map[string][]pluginRef)
	for _, s := range sets.byPoint() {
		chosen[s.point] = sets.at(s.point, s.set)
	}
	for _, ref := range chosen[filter] {
		if pluginOf(ref.Name).predicate != nil {
			p.filters = append(p.filters, ref.Name)
		}
	}
	for _, ref := range chosen[score] {
		if pluginOf(ref.Name).priority != nil {
			p.scores = append(p.scores, scored{ref.Name, ref.weight()})
		}
	}
	p.preempts = hasRef(chosen[postFilter], defaultPreemption)
	p.binds = hasRef(chosen[preBind], volumeBinding)
	if n := len(chosen[queueSort]); n != 1 {
		errs = append(errs, fmt.Errorf("%s: only one queue sort plugin required for profile with scheduler name %q, but got %d", at.Child(queueSort), p.name, n))
	}
	if len(chosen[bind]) == 0 {
		errs = append(errs, fmt.Errorf("%s: at least one bind plugin is needed for profile with scheduler name %q", at.Child(bind), p.name))
	}
	f.warnPoints(sets, chosen, at)
	return errors.Join(errs...)
}

// checkSet checks the set of one extension point, or of all.
func (f *File) checkSet(p *profile, s pointSet, at *field.Path) error {
	var errs []error
	known := make(map[string]bool)
	for i, ref := range s.set.Enabled {
		at := at.Child("enabled").Index(i)
		name := at.Child("name")
		row := pluginOf(ref.Name)
		switch {
		case ref.Name == "":
			errs = append(errs, field.Required(name, ""))
			continue
		case row == nil || row.points == nil:
			errs = append(errs, unknownPlugin(name, ref.Name))
			continue
		case known[ref.Name]:
			errs = append(errs, field.Duplicate(name, ref.Name))
		case s.point != multiPoint && !slices.Contains(row.points, s.point):
			errs = append(errs, field.Invalid(name, ref.Name, "the plugin does not extend "+s.point))
		case !row.supported():
			errs = append(errs, fmt.Errorf("%s: %s is not supported", name, ref.Name))
		case s.point == placementScore:
			f.warn(name, "groups of pods are not scheduled together")
		case row.priority == nil && s.point == score:
			f.warn(name, ref.Name+" gives all nodes the same score")
		}
		known[ref.Name], p.named[ref.Name] = true, name.String()
		if ref.Weight == nil {
			continue
		}
		if *ref.Weight < 0 {
			errs = append(errs, field.Invalid(at.Child("weight"), *ref.Weight, "must not be negative"))
		} else if s.point != score && (s.point != multiPoint || row.priority == nil) {
			f.warn(at.Child("weight"), "only a plugin that scores has a weight")
		}
	}
	for i, ref := range s.set.Disabled {
		at := at.Child("disabled").Index(i)
		switch row := pluginOf(ref.Name); {
		case ref.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case ref.Name != everything && (row == nil || row.points == nil):
			f.warn(at, "no plugin has the name "+ref.Name)
		case ref.Name == "DynamicResources":
			f.warn(at, "pods with resource claims stay pending")
		}
		if ref.Weight != nil {
			f.warn(at.Child("weight"), "a disabled plugin has none")
		}
	}
	return errors.Join(errs...)
}

// joint are extension points of Kubernetes whose work is here a part of another's.
var joint = []struct{ part, whole string }{
	{preFilter, filter}, {preScore, score}, {reserve, preBind}, {preEnqueue, postFilter},
}

// warnPoints notes where the plugins at an extension point are not what a profile here does.
func (f *File) warnPoints(sets *pluginSets, chosen map[string][]pluginRef, at *field.Path) {
	for _, j := range joint {
		for i, ref := range sets.set(j.part).Enabled {
			if slices.Contains(pluginOf(ref.Name).points, j.whole) && !hasRef(chosen[j.whole], ref.Name) {
				f.warn(at.Child(j.part, "enabled").Index(i), fmt.Sprintf("%s is not enabled for %s", ref.Name, j.whole))
			}
		}
		for _, ref := range chosen[j.whole] {
			if row := pluginOf(ref.Name); slices.Contains(row.points, j.part) && row.supported() && !hasRef(chosen[j.part], ref.Name) {
				f.warn(at.Child(j.part), fmt.Sprintf("what %s does there is a part of %s", ref.Name, j.whole))
			}
		}
	}
	if !hasRef(chosen[preEnqueue], "SchedulingGates") {
		f.warn(at.Child(preEnqueue), "pods with scheduling gates always wait")
	}
}
