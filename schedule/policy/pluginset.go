package policy

import (
	"cmp"
	"slices"
)

// pluginSets enable and disable plugins by extension point.
type pluginSets struct {
	PreEnqueue        pluginSet `json:"preEnqueue"`
	QueueSort         pluginSet `json:"queueSort"`
	PreFilter         pluginSet `json:"preFilter"`
	Filter            pluginSet `json:"filter"`
	PostFilter        pluginSet `json:"postFilter"`
	PreScore          pluginSet `json:"preScore"`
	Score             pluginSet `json:"score"`
	Reserve           pluginSet `json:"reserve"`
	Permit            pluginSet `json:"permit"`
	PreBind           pluginSet `json:"preBind"`
	Bind              pluginSet `json:"bind"`
	PostBind          pluginSet `json:"postBind"`
	MultiPoint        pluginSet `json:"multiPoint"`
	PlacementGenerate pluginSet `json:"placementGenerate"`
	PlacementScore    pluginSet `json:"placementScore"`
}

// pluginSet enables plugins beside the default ones, of which it disables some. The name * disables all.
type pluginSet struct {
	Enabled  []pluginRef `json:"enabled"`
	Disabled []pluginRef `json:"disabled"`
}

// pluginRef names a plugin.
type pluginRef struct {
	Name   string `json:"name"`
	Weight *int32 `json:"weight"`
}

// given returns the weight in the file; 0 if it has none.
func (r *pluginRef) given() int64 {
	if r.Weight == nil {
		return 0
	}
	return int64(*r.Weight)
}

// weight returns the weight of a plugin that scores; 1 if the file gives none, or 0.
func (r *pluginRef) weight() int64 { return cmp.Or(r.given(), 1) }

const (
	multiPoint = "multiPoint"
	everything = "*"
)

// byPoint yields the sets by extension point, in the order of Kubernetes, and last that for all points.
func (s *pluginSets) byPoint() []pointSet {
	return []pointSet{
		{preEnqueue, &s.PreEnqueue}, {queueSort, &s.QueueSort}, {preFilter, &s.PreFilter}, {filter, &s.Filter},
		{postFilter, &s.PostFilter}, {preScore, &s.PreScore}, {score, &s.Score}, {reserve, &s.Reserve},
		{permit, &s.Permit}, {preBind, &s.PreBind}, {bind, &s.Bind}, {postBind, &s.PostBind},
		{placementGenerate, &s.PlacementGenerate}, {placementScore, &s.PlacementScore}, {multiPoint, &s.MultiPoint},
	}
}

type pointSet struct {
	point string
	set   *pluginSet
}

// set returns the set of an extension point.
func (s *pluginSets) set(point string) *pluginSet {
	all := s.byPoint()
	return all[slices.IndexFunc(all, func(p pointSet) bool { return p.point == point })].set
}

func hasRef(list []pluginRef, name string) bool {
	return slices.ContainsFunc(list, func(r pluginRef) bool { return r.Name == name })
}

// standardPlugins returns Kubernetes' default profile.
func standardPlugins() []pluginRef {
	var list []pluginRef
	for _, p := range plugins {
		if p.standard {
			list = append(list, pluginRef{Name: p.name, Weight: &p.weight})
		}
	}
	return list
}

// forAllPoints returns the plugins that a profile enables for all their extension points. Those that the file
// names replace default ones of the same name, or follow after them.
func (s *pluginSets) forAllPoints() []pluginRef {
	var list []pluginRef
	replaced := make(map[string]bool)
	if !hasRef(s.MultiPoint.Disabled, everything) {
		for _, p := range standardPlugins() {
			if hasRef(s.MultiPoint.Disabled, p.Name) {
				continue
			}
			if i := slices.IndexFunc(s.MultiPoint.Enabled, func(r pluginRef) bool { return r.Name == p.Name }); i >= 0 {
				p, replaced[p.Name] = s.MultiPoint.Enabled[i], true
			}
			list = append(list, p)
		}
	}
	for _, p := range s.MultiPoint.Enabled {
		if !replaced[p.Name] {
			list = append(list, p)
		}
	}
	return list
}

// at returns the plugins at an extension point in their order: first those that replace ones for all points,
// then the others for all points, and then those of the point alone.
func (s *pluginSets) at(point string, set *pluginSet) []pluginRef {
	if hasRef(set.Disabled, everything) {
		return set.Enabled
	}
	var replacing, general, rest []pluginRef
	overridden := make(map[string]bool)
	for _, p := range s.forAllPoints() {
		row := pluginOf(p.Name)
		if row == nil || !slices.Contains(row.points, point) || hasRef(set.Disabled, p.Name) {
			continue
		}
		if hasRef(set.Enabled, p.Name) {
			overridden[p.Name] = true
		} else {
			general = append(general, p)
		}
	}
	for _, p := range set.Enabled {
		if overridden[p.Name] {
			replacing = append(replacing, p)
		} else {
			rest = append(rest, p)
		}
	}
	return slices.Concat(replacing, general, rest)
}
