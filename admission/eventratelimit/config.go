package eventratelimit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Type determines which events share a bucket.
type Type string

// The types of limits.
const (
	// Server has one bucket for all events.
	Server Type = "Server"
	// Namespace has a bucket for each namespace.
	Namespace Type = "Namespace"
	// User has a bucket for each user.
	User Type = "User"
	// SourceAndObject has a bucket for each pair of a source and the object of its events.
	SourceAndObject Type = "SourceAndObject"
)

// DefaultCacheSize is the default number of buckets of a limit.
const DefaultCacheSize = 4096

// Config configures the plugin. At least one limit is required.
type Config struct {
	Limits []Limit `json:"limits"`
}

// Limit is one limit.
type Limit struct {
	Type Type `json:"type"`
	// QPS is the rate of events per second. Required.
	QPS int32 `json:"qps"`
	// Burst is the capacity of a bucket. Required.
	Burst int32 `json:"burst"`
	// CacheSize is the number of buckets to keep. Zero means [DefaultCacheSize]. A limit of type
	// Server always has one bucket.
	CacheSize int32 `json:"cacheSize,omitempty"`
}

// The group, version and kind of the configuration.
const (
	apiVersion = "eventratelimit.admission.k8s.io/v1alpha1"
	kind       = "Configuration"
)

// ParseConfig reads a Configuration of eventratelimit.admission.k8s.io/v1alpha1 in YAML or JSON
// (https://kubernetes.io/docs/reference/config-api/apiserver-eventratelimit.v1alpha1/). Unknown
// fields are errors. [New] checks the values.
func ParseConfig(data []byte) (Config, error) {
	var file struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Config     `json:",inline"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return Config{}, fmt.Errorf("eventratelimit: %w", err)
	}
	if file.APIVersion != apiVersion || file.Kind != kind {
		return Config{}, fmt.Errorf("eventratelimit: the configuration is %q of %q, want %q of %q",
			file.Kind, file.APIVersion, kind, apiVersion)
	}
	return file.Config, nil
}

func (c Config) validate() error {
	var problems field.ErrorList
	at := field.NewPath("limits")
	if len(c.Limits) == 0 {
		problems = append(problems, field.Invalid(at, c.Limits, "must not be empty"))
	}
	for i, l := range c.Limits {
		at := at.Index(i)
		switch l.Type {
		case Server, Namespace, User, SourceAndObject:
		default:
			problems = append(problems, field.NotSupported(at.Child("type"), l.Type, []Type{Namespace, Server, SourceAndObject, User}))
		}
		if l.Burst <= 0 {
			problems = append(problems, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			problems = append(problems, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
		}
		if l.CacheSize < 0 && l.Type != Server {
			problems = append(problems, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return problems.ToAggregate()
}
