package podsecurity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
	machinery "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Configuration has what the labels of namespaces do not say. The zero Configuration allows everything in namespaces
// without labels and exempts nothing.
type Configuration struct {
	// Defaults apply where a namespace has no label.
	Defaults   Policy
	Exemptions Exemptions
}

// Exemptions list the requests that are not evaluated.
type Exemptions struct {
	// Usernames lists the users whose requests are exempt. Exempting that of a controller exempts all users who may
	// create its workloads.
	Usernames []string `json:"usernames"`
	// Namespaces lists the namespaces whose pods are exempt.
	Namespaces []string `json:"namespaces"`
	// RuntimeClasses lists the values of spec.runtimeClassName of exempt pods.
	RuntimeClasses []string `json:"runtimeClasses"`
}

const kind = "PodSecurityConfiguration"

// versions lists the API versions of the configuration, which differ only in name.
var versions = []string{
	"pod-security.admission.config.k8s.io/v1",
	"pod-security.admission.config.k8s.io/v1beta1",
	"pod-security.admission.config.k8s.io/v1alpha1",
}

// ParseConfig reads a PodSecurityConfiguration in YAML or JSON
// (https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/). Unknown fields, levels
// and versions are errors. [New] checks the exemptions.
func ParseConfig(data []byte) (Configuration, error) {
	var file struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Defaults   map[string]string `json:"defaults"`
		Exemptions Exemptions        `json:"exemptions"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return Configuration{}, fmt.Errorf("podsecurity: %w", err)
	}
	if file.Kind != kind || !slices.Contains(versions, file.APIVersion) {
		return Configuration{}, fmt.Errorf("podsecurity: the configuration is %q of %q, want %q of %q", file.Kind, file.APIVersion, kind, versions[0])
	}
	c := Configuration{Exemptions: file.Exemptions}
	if problems := readDefaults(file.Defaults, &c.Defaults); len(problems) > 0 {
		return Configuration{}, fmt.Errorf("podsecurity: %w", problems.ToAggregate())
	}
	return c, nil
}

// readDefaults reads the field defaults into p. Empty values mean privileged and latest.
func readDefaults(values map[string]string, p *Policy) field.ErrorList {
	var problems field.ErrorList
	at, known := field.NewPath("defaults"), map[string]bool{}
	for _, mode := range []struct {
		name     string
		standard *Standard
	}{{"enforce", &p.Enforce}, {"warn", &p.Warn}, {"audit", &p.Audit}} {
		known[mode.name], known[mode.name+versionSuffix] = true, true
		var err error
		if text := values[mode.name]; text != "" {
			if mode.standard.Level, err = ParseLevel(text); err != nil {
				problems = append(problems, field.Invalid(at.Child(mode.name), text, err.Error()))
			}
		}
		if text := values[mode.name+versionSuffix]; text != "" {
			if mode.standard.Version, err = ParseVersion(text); err != nil {
				problems = append(problems, field.Invalid(at.Child(mode.name+versionSuffix), text, err.Error()))
			}
		}
	}
	for name := range values {
		if !known[name] {
			problems = append(problems, field.Invalid(at.Child(name), values[name], "unknown field"))
		}
	}
	return problems
}

// validate returns an error that lists all problems.
func (c Configuration) validate() error {
	at := field.NewPath("exemptions")
	problems := c.problems()
	problems = append(problems, names(at.Child("namespaces"), c.Exemptions.Namespaces, func(s string) []string {
		return machinery.ValidateNamespaceName(s, false)
	})...)
	problems = append(problems, names(at.Child("runtimeClasses"), c.Exemptions.RuntimeClasses, func(s string) []string {
		return machinery.NameIsDNSSubdomain(s, false)
	})...)
	problems = append(problems, names(at.Child("usernames"), c.Exemptions.Usernames, func(s string) []string {
		if s == "" {
			return []string{"username must not be empty"}
		}
		return nil
	})...)
	if len(problems) == 0 {
		return nil
	}
	return problems.ToAggregate()
}

// problems lists levels and versions that only a program can set.
func (c Configuration) problems() field.ErrorList {
	var problems field.ErrorList
	for name, s := range map[string]Standard{"enforce": c.Defaults.Enforce, "audit": c.Defaults.Audit, "warn": c.Defaults.Warn} {
		at := field.NewPath("defaults")
		if s.Level < Privileged || s.Level > Restricted {
			problems = append(problems, field.Invalid(at.Child(name), int(s.Level), errLevel.Error()))
		}
		if s.Version.Minor < 0 {
			problems = append(problems, field.Invalid(at.Child(name+versionSuffix), s.Version.Minor, errVersion.Error()))
		}
	}
	return problems
}

func names(at *field.Path, list []string, check func(string) []string) field.ErrorList {
	var problems field.ErrorList
	seen := map[string]bool{}
	for i, s := range list {
		if wrong := check(s); len(wrong) > 0 {
			problems = append(problems, field.Invalid(at.Index(i), s, strings.Join(wrong, ", ")))
		} else if seen[s] {
			problems = append(problems, field.Duplicate(at.Index(i), s))
		}
		seen[s] = true
	}
	return problems
}

// exemptions are Exemptions as sets.
type exemptions struct{ users, namespaces, runtimeClasses map[string]bool }

func newExemptions(e Exemptions) exemptions {
	set := func(list []string) map[string]bool {
		all := map[string]bool{}
		for _, s := range list {
			all[s] = true
		}
		return all
	}
	return exemptions{set(e.Usernames), set(e.Namespaces), set(e.RuntimeClasses)}
}

// exempted reports whether the namespace or the user of r is exempt, and records that.
func (p *Plugin) exempted(r *admission.Request) bool {
	switch {
	case p.exempt.namespaces[rules.NamespaceOf(r)]:
		p.pass(r, "namespace")
	case r.User != nil && p.exempt.users[r.User.Name]:
		p.pass(r, "user")
	default:
		return false
	}
	return true
}

func (p *Plugin) pass(r *admission.Request, because string) {
	annotate(r, exemptKey, because)
	p.config.Metrics.exempted(r)
}
