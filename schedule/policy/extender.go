package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Extender is a server that the scheduler asks about pods and nodes, as a file describes it.
type Extender struct {
	// URLPrefix is an http or https URL.
	URLPrefix string
	// FilterVerb, PreemptVerb, PrioritizeVerb and BindVerb are appended to URLPrefix; the extender is not asked
	// for what has an empty one.
	FilterVerb, PreemptVerb, PrioritizeVerb, BindVerb string
	// Weight multiplies the scores of PrioritizeVerb. It is positive if that is set.
	Weight int64
	// EnableHTTPS asks for TLS, without verification unless TLS has a CA.
	EnableHTTPS bool
	// TLS is nil if the file does not have it.
	TLS *ExtenderTLS
	// HTTPTimeout limits a call; zero means that the file does not say.
	HTTPTimeout      time.Duration
	NodeCacheCapable bool
	ManagedResources []ManagedResource
	// Ignorable says that scheduling continues if the extender fails.
	Ignorable bool
}

// ManagedResource is an extended resource that an extender manages.
type ManagedResource struct {
	Name               corev1.ResourceName `json:"name"`
	IgnoredByScheduler bool                `json:"ignoredByScheduler"`
}

// ExtenderTLS says how to connect to an extender. Data is used rather than the file of the same name.
type ExtenderTLS struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName"`
	CertFile   string `json:"certFile"`
	KeyFile    string `json:"keyFile"`
	CAFile     string `json:"caFile"`
	CertData   []byte `json:"certData"`
	KeyData    []byte `json:"keyData"`
	CAData     []byte `json:"caData"`
}

// extender is an Extender in a KubeSchedulerConfiguration.
type extender struct {
	URLPrefix        string            `json:"urlPrefix"`
	FilterVerb       string            `json:"filterVerb"`
	PreemptVerb      string            `json:"preemptVerb"`
	PrioritizeVerb   string            `json:"prioritizeVerb"`
	Weight           int64             `json:"weight"`
	BindVerb         string            `json:"bindVerb"`
	EnableHTTPS      bool              `json:"enableHTTPS"`
	TLSConfig        *ExtenderTLS      `json:"tlsConfig"`
	HTTPTimeout      metav1.Duration   `json:"httpTimeout"`
	NodeCacheCapable bool              `json:"nodeCacheCapable"`
	ManagedResources []ManagedResource `json:"managedResources"`
	Ignorable        bool              `json:"ignorable"`
}

// plain returns the extender without its encoding.
func (e *extender) plain() Extender {
	return Extender{
		URLPrefix: e.URLPrefix, FilterVerb: e.FilterVerb, PreemptVerb: e.PreemptVerb, PrioritizeVerb: e.PrioritizeVerb,
		BindVerb: e.BindVerb, Weight: e.Weight, EnableHTTPS: e.EnableHTTPS, TLS: e.TLSConfig, HTTPTimeout: e.HTTPTimeout.Duration,
		NodeCacheCapable: e.NodeCacheCapable, ManagedResources: e.ManagedResources, Ignorable: e.Ignorable,
	}
}

// legacyExtender returns an extender of a Policy. As in Kubernetes, the case of the names of its fields does not
// matter, and the timeout is a number of nanoseconds.
func legacyExtender(text json.RawMessage) (Extender, error) {
	var fields map[string]json.RawMessage
	if err := decode(text, &fields); err != nil {
		return Extender{}, err
	}
	canonical := make(map[string]json.RawMessage)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		known := slices.IndexFunc(extenderFields, func(field string) bool { return strings.EqualFold(field, name) })
		if known < 0 {
			return Extender{}, fmt.Errorf("unknown field %q", name)
		}
		if _, twice := canonical[extenderFields[known]]; twice {
			return Extender{}, fmt.Errorf("duplicate field %q", name)
		}
		canonical[extenderFields[known]] = fields[name]
	}
	var timeout time.Duration
	if value, ok := canonical["httpTimeout"]; ok {
		if err := decode(value, &timeout); err != nil {
			return Extender{}, fmt.Errorf("httpTimeout must be a number of nanoseconds: %w", err)
		}
		delete(canonical, "httpTimeout")
	}
	again, err := json.Marshal(canonical)
	if err != nil {
		return Extender{}, err
	}
	var e extender
	err = decode(again, &e)
	e.HTTPTimeout.Duration = timeout
	return e.plain(), err
}

// extenderFields are the names of the fields of extender.
var extenderFields = []string{
	"urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS", "tlsConfig",
	"httpTimeout", "nodeCacheCapable", "managedResources", "ignorable",
}

// addExtenders checks extenders and adds them to f. It returns the resources that the scheduler must ignore.
func (f *File) addExtenders(list []Extender) (ignored []string, errs field.ErrorList) {
	all := field.NewPath("extenders")
	binders := 0
	known := make(map[corev1.ResourceName]bool)
	for i := range list {
		e, at := &list[i], all.Index(i)
		errs = append(errs, e.check(at)...)
		if e.BindVerb != "" {
			binders++
		}
		if e.FilterVerb == "" && e.PreemptVerb == "" && e.PrioritizeVerb == "" && e.BindVerb == "" {
			f.warn(at, "it has no verb")
		}
		for j, r := range e.ManagedResources {
			at := at.Child("managedResources").Index(j).Child("name")
			if problem := checkExtended(string(r.Name)); problem != "" {
				errs = append(errs, field.Invalid(at, string(r.Name), problem))
			}
			if known[r.Name] {
				errs = append(errs, field.Invalid(at, string(r.Name), "duplicate extender managed resource name"))
			}
			known[r.Name] = true
			if r.IgnoredByScheduler {
				ignored = append(ignored, string(r.Name))
			}
		}
	}
	if binders > 1 {
		errs = append(errs, field.Invalid(all, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind"))
	}
	f.extenders = list
	return ignored, errs
}

// check checks what concerns the extender alone.
func (e *Extender) check(at *field.Path) (errs field.ErrorList) {
	prefix := at.Child("urlPrefix")
	switch u, err := url.Parse(e.URLPrefix); {
	case e.URLPrefix == "":
		errs = append(errs, field.Required(prefix, ""))
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		// The value is left out: it may have a password.
		errs = append(errs, field.Invalid(prefix, field.OmitValueType{}, "must be http:// or https://, a host and a path"))
	}
	if e.PrioritizeVerb != "" && e.Weight <= 0 {
		errs = append(errs, field.Invalid(at.Child("weight"), e.Weight, "must have a positive weight applied to it"))
	} else if e.Weight < 0 {
		errs = append(errs, field.Invalid(at.Child("weight"), e.Weight, "must not be negative"))
	}
	if e.HTTPTimeout < 0 {
		errs = append(errs, field.Invalid(at.Child("httpTimeout"), e.HTTPTimeout.String(), "must not be negative"))
	}
	if t := e.TLS; t != nil {
		at := at.Child("tlsConfig")
		if t.Insecure && (t.CAFile != "" || len(t.CAData) > 0) {
			errs = append(errs, field.Forbidden(at.Child("insecure"), "specifying a root certificates file with the insecure flag is not allowed"))
		}
		if (t.CertFile != "" || len(t.CertData) > 0) != (t.KeyFile != "" || len(t.KeyData) > 0) {
			errs = append(errs, field.Forbidden(at, "a certificate and its key go together"))
		}
	}
	return errs
}

// checkExtended returns why a name is not that of an extended resource, or "".
func checkExtended(name string) string {
	for _, problem := range validation.IsQualifiedName(name) {
		return problem
	}
	native := !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
	quota := corev1.DefaultResourceRequestsPrefix
	if native || strings.HasPrefix(name, quota) || len(validation.IsQualifiedName(quota+name)) > 0 {
		return "is an invalid extended resource name"
	}
	return ""
}
