package podsecurity

import (
	"errors"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Level is a Pod Security Standard. The zero Level is Privileged.
type Level int

// The levels, the least strict first.
const (
	Privileged Level = iota
	Baseline
	Restricted
)

var levelNames = [...]string{"privileged", "baseline", "restricted"}

// String returns the level as in a label.
func (l Level) String() string { return levelNames[l] }

var errLevel = errors.New("must be one of privileged, baseline, restricted")

// ParseLevel parses a level as in a label. With an error it returns Restricted.
func ParseLevel(s string) (Level, error) {
	for l, name := range levelNames {
		if s == name {
			return Level(l), nil
		}
	}
	return Restricted, errLevel
}

// Version is the minor version of Kubernetes whose standards apply. The zero Version is the latest one.
type Version struct {
	// Minor is the number after "v1.", if Pinned is set.
	Minor int
	// Pinned distinguishes v1.0 from the latest version.
	Pinned bool
}

// V returns version v1.minor.
func V(minor int) Version { return Version{Minor: minor, Pinned: true} }

// String returns the version as in a label.
func (v Version) String() string {
	if !v.Pinned {
		return "latest"
	}
	return "v1." + strconv.Itoa(v.Minor)
}

var (
	versionPattern = regexp.MustCompile(`^v1\.(0|[1-9][0-9]*)$`)
	errVersion     = errors.New(`must be "latest" or "v1.x"`)
)

// ParseVersion parses a version as in a label. With an error it returns the latest version.
func ParseVersion(s string) (Version, error) {
	if s == "latest" {
		return Version{}, nil
	}
	match := versionPattern.FindStringSubmatch(s)
	if match == nil {
		return Version{}, errVersion
	}
	minor, err := strconv.Atoi(match[1])
	if err != nil { // more digits than an int has
		return Version{}, errVersion
	}
	return V(minor), nil
}

// Standard is a level at a version.
type Standard struct {
	Level   Level
	Version Version
}

// String returns the standard as in messages, such as restricted:latest.
func (s Standard) String() string { return s.Level.String() + ":" + s.Version.String() }

// same reports whether two standards forbid the same: privileged is alike at all versions.
func (s Standard) same(other Standard) bool {
	return s == other || s.Level == Privileged && other.Level == Privileged
}

// Policy holds the standards of a namespace by mode. The zero Policy allows everything.
type Policy struct {
	// Enforce refuses pods, Audit annotates the audit event, and Warn warns the client.
	Enforce, Audit, Warn Standard
}

// privileged reports whether no mode forbids anything.
func (p Policy) privileged() bool {
	return p.Enforce.Level == Privileged && p.Audit.Level == Privileged && p.Warn.Level == Privileged
}

func (p Policy) same(other Policy) bool {
	return p.Enforce.same(other.Enforce) && p.Audit.same(other.Audit) && p.Warn.same(other.Warn)
}

// The labels of namespaces. With versionSuffix each names a version.
const (
	prefix        = "pod-security.kubernetes.io/"
	enforceLabel  = prefix + "enforce"
	auditLabel    = prefix + "audit"
	warnLabel     = prefix + "warn"
	versionSuffix = "-version"
)

// PolicyOf returns the policy that the labels of a namespace select, with defaults for what they omit. An invalid
// level enforces restricted, but neither audits nor warns; an invalid version is the latest. Without a level for
// warnings, a stricter valid level to enforce also warns. The errors are about the labels.
func PolicyOf(labels map[string]string, defaults Policy) (Policy, field.ErrorList) {
	p := defaults
	if len(labels) == 0 {
		return p, nil
	}
	r := reader{labels: labels}
	enforces := r.level(enforceLabel, &p.Enforce.Level, Restricted)
	r.version(enforceLabel+versionSuffix, &p.Enforce.Version)
	r.level(auditLabel, &p.Audit.Level, Privileged)
	r.version(auditLabel+versionSuffix, &p.Audit.Version)
	r.level(warnLabel, &p.Warn.Level, Privileged)
	r.version(warnLabel+versionSuffix, &p.Warn.Version)

	if _, set := labels[warnLabel]; !set && enforces && p.Enforce.Level > p.Warn.Level {
		p.Warn.Level = p.Enforce.Level
		if _, set := labels[warnLabel+versionSuffix]; !set {
			p.Warn.Version = p.Enforce.Version
		}
	}
	return p, r.problems
}

// reader reads the labels of a namespace and collects what is wrong with them.
type reader struct {
	labels   map[string]string
	problems field.ErrorList
}

// level reads a label into l, and sets it to otherwise if it is invalid. It reports whether there is a valid one.
func (r *reader) level(label string, l *Level, otherwise Level) bool {
	text, ok := r.labels[label]
	if !ok {
		return false
	}
	var err error
	if *l, err = ParseLevel(text); err != nil {
		*l = otherwise
		r.wrong(label, text, err)
	}
	return err == nil
}

func (r *reader) version(label string, v *Version) {
	text, ok := r.labels[label]
	if !ok {
		return
	}
	var err error
	if *v, err = ParseVersion(text); err != nil {
		r.wrong(label, text, err)
	}
}

func (r *reader) wrong(label, text string, err error) {
	r.problems = append(r.problems, field.Invalid(field.NewPath("metadata", "labels").Key(label), text, err.Error()))
}
