// Package plugins selects and orders the admission plugins of a server, as
// --enable-admission-plugins, --disable-admission-plugins and --admission-control-config-file do.
//
//	chain, err := plugins.New(plugins.Config{
//		Table: []plugins.Plugin{
//			{Name: "NamespaceLifecycle", New: func([]byte) (any, error) { return lifecycle.New(namespaces) }},
//			{Name: "EventRateLimit", New: newEventRateLimit},
//			{Name: "TeamLabel", New: func([]byte) (any, error) { return TeamLabel{}, nil }},
//		},
//		Enable:  []string{"EventRateLimit"},
//		Disable: []string{"NamespaceLifecycle"},
//	})
//
// Plugins do not register themselves: a program lists the plugins that it has in its table. Plugins
// with Kubernetes' names run in Kubernetes' order and have its defaults ([Order], [DefaultOn]),
// whatever the table's order. Other plugins run before the webhooks, in the table's order, so that
// webhooks and quota see their changes. They are on unless Off is set.
//
// An unknown name is an error, and so is one that is both enabled and disabled. A plugin of
// Kubernetes that the program does not have may be disabled but not enabled.
package plugins

import (
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/admission"
)

// Plugin is one row of a program's table.
type Plugin struct {
	// Name is the plugin's name in flags and configuration.
	Name string
	// Off disables the plugin by default. For Kubernetes' names, [DefaultOn] decides instead.
	Off bool
	// New creates the plugin: an [admission.Mutator], an [admission.Validator], or both. It is
	// called if the plugin is enabled, with its configuration, or nil if there is none.
	New func(config []byte) (any, error)
}

// Config lists the plugins of a program and selects some of them.
type Config struct {
	// Table lists all plugins of the program.
	Table []Plugin
	// Enable and Disable are the names in the two flags, in any order.
	Enable, Disable []string
	// Configuration is the configuration of the plugins. See [Parse].
	Configuration Configuration
	// Metrics receives the duration and result of each plugin.
	Metrics Metrics
}

// New creates the enabled plugins and returns their chain. Its error lists all problems with the
// names.
func New(c Config) (admission.Chain, error) {
	on, err := c.choose()
	if err != nil {
		return admission.Chain{}, err
	}
	var chain admission.Chain
	for _, p := range on {
		config, err := c.Configuration.of(p.Name)
		if err != nil {
			return admission.Chain{}, fmt.Errorf("configuration of admission plugin %q: %w", p.Name, err)
		}
		made, err := p.New(config)
		if err != nil {
			return admission.Chain{}, fmt.Errorf("couldn't init admission plugin %q: %w", p.Name, err)
		}
		m, mutates := made.(admission.Mutator)
		v, validates := made.(admission.Validator)
		if mutates {
			chain.Mutators = append(chain.Mutators, c.Metrics.mutator(p.Name, m))
		}
		if validates {
			chain.Validators = append(chain.Validators, c.Metrics.validator(p.Name, v))
		}
		if !mutates && !validates {
			return admission.Chain{}, fmt.Errorf("admission plugin %q is a %T, which neither mutates nor validates", p.Name, made)
		}
	}
	return chain, nil
}

// Names returns the names of the enabled plugins in the order in which they run.
func Names(c Config) ([]string, error) {
	on, err := c.choose()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(on))
	for i, p := range on {
		names[i] = p.Name
	}
	return names, nil
}

// choose returns the enabled plugins in order.
func (c Config) choose() ([]Plugin, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var on []Plugin
	for _, p := range ordered(c.Table) {
		byDefault := !p.Off
		if slices.Contains(order, p.Name) {
			byDefault = slices.Contains(defaultOn, p.Name)
		}
		if slices.Contains(c.Enable, p.Name) || byDefault && !slices.Contains(c.Disable, p.Name) {
			on = append(on, p)
		}
	}
	return on, nil
}

// ordered returns table in the order in which plugins run.
func ordered(table []Plugin) []Plugin {
	rank := func(p Plugin) int {
		if i := slices.Index(order, p.Name); i >= 0 {
			return 2 * i
		}
		return 2*slices.Index(order, firstOfLast) - 1 // just before the plugins that come last
	}
	sorted := slices.Clone(table)
	slices.SortStableFunc(sorted, func(a, b Plugin) int { return rank(a) - rank(b) })
	return sorted
}

// check returns an error that lists all problems with the names.
func (c Config) check() error {
	var problems []error
	has := map[string]bool{}
	for _, p := range c.Table {
		switch {
		case p.Name == "" || p.New == nil:
			problems = append(problems, fmt.Errorf("admission plugin %q has no name or no New", p.Name))
		case has[p.Name]:
			problems = append(problems, fmt.Errorf("admission plugin %q was registered twice", p.Name))
		}
		has[p.Name] = true
	}
	for _, name := range c.Enable {
		if !has[name] {
			problems = append(problems, fmt.Errorf("enable-admission-plugins plugin %q is unknown", name))
		}
	}
	for _, name := range c.Disable {
		if !has[name] && !slices.Contains(order, name) {
			problems = append(problems, fmt.Errorf("disable-admission-plugins plugin %q is unknown", name))
		}
	}
	if both := overlap(c.Enable, c.Disable); len(both) > 0 {
		problems = append(problems, fmt.Errorf("%v in enable-admission-plugins and disable-admission-plugins overlapped", both))
	}
	for _, p := range c.Configuration.plugins {
		if !has[p.Name] {
			problems = append(problems, fmt.Errorf("configuration is given for the admission plugin %q, which is unknown", p.Name))
		}
	}
	return errors.Join(problems...)
}

// overlap returns the common elements, sorted.
func overlap(a, b []string) []string {
	var both []string
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	slices.Sort(both)
	return slices.Compact(both)
}
