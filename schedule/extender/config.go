package extender

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// DefaultTimeout is kube-scheduler's.
	DefaultTimeout = 5 * time.Second
	// MaxWeight bounds Config.Weight, so that sums of scores do not overflow.
	MaxWeight = 1_000_000
)

// Config describes an extender and how to reach it. The fields are those of an extender in
// kube-scheduler's configuration.
type Config struct {
	// URLPrefix is the http or https URL at which the extender is available.
	URLPrefix string
	// FilterVerb, PrioritizeVerb, PreemptVerb and BindVerb are appended to URLPrefix, after a slash, to
	// ask the extender. It is not asked for what has an empty verb. At least one must be set.
	FilterVerb, PrioritizeVerb, PreemptVerb, BindVerb string
	// Weight multiplies the scores of PrioritizeVerb. It must be from 1 to MaxWeight if that is set.
	Weight int64
	// TLS has the roots to trust and the certificate to present to an https extender. Nil trusts the
	// system's roots.
	TLS *tls.Config
	// Transport carries requests instead of connections of the client's own. TLS must then be nil.
	Transport http.RoundTripper
	// HTTPTimeout limits one question and its answer; zero means DefaultTimeout.
	HTTPTimeout time.Duration
	// NodeCacheCapable means that the extender knows the nodes, so that it is asked by their names.
	NodeCacheCapable bool
	// ManagedResources are extended resources: the extender is interested in the pods that request at
	// least one of them. If there are none, it is interested in all pods.
	ManagedResources []ManagedResource
	// Ignorable means that scheduling goes on without the extender if it fails to answer.
	Ignorable bool
}

// ManagedResource is an extended resource that an extender manages.
type ManagedResource struct {
	// Name is the name of the resource, such as example.com/gpu.
	Name corev1.ResourceName
	// IgnoredByScheduler means that the scheduler must not check how much of the resource a node has;
	// see [Add].
	IgnoredByScheduler bool
}

// validate returns what is wrong with c, and the URL of the extender.
func (c *Config) validate() (*url.URL, error) {
	u, err := url.Parse(c.URLPrefix)
	switch {
	case err != nil:
		return nil, errors.New("URLPrefix cannot be parsed") // its error quotes the URL, which may contain a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("URLPrefix must be http:// or https:// and a host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("URLPrefix must not have a query or a fragment")
	case c.FilterVerb == "" && c.PrioritizeVerb == "" && c.PreemptVerb == "" && c.BindVerb == "":
		return nil, errors.New("no verb is set")
	case c.PrioritizeVerb != "" && (c.Weight < 1 || c.Weight > MaxWeight):
		return nil, fmt.Errorf("a Weight must be from 1 to %d, not %d", MaxWeight, c.Weight)
	case c.HTTPTimeout < 0:
		return nil, errors.New("HTTPTimeout is negative")
	case c.TLS != nil && c.Transport != nil:
		return nil, errors.New("both Transport and TLS are set")
	case c.TLS != nil && u.Scheme != "https":
		return nil, errors.New("TLS is set, but URLPrefix is not https://")
	}
	for _, verb := range []string{c.FilterVerb, c.PrioritizeVerb, c.PreemptVerb, c.BindVerb} {
		if _, err := url.Parse(c.address(verb)); err != nil {
			return nil, fmt.Errorf("the verb %q cannot be part of a URL", verb)
		}
	}
	seen := make(map[corev1.ResourceName]bool)
	for _, r := range c.ManagedResources {
		if err := checkExtended(r.Name); err != nil {
			return nil, fmt.Errorf("managed resource %q: %w", r.Name, err)
		}
		if seen[r.Name] {
			return nil, fmt.Errorf("managed resource %q: listed twice", r.Name)
		}
		seen[r.Name] = true
	}
	return u, nil
}

// address returns the URL of a verb.
func (c *Config) address(verb string) string {
	return strings.TrimRight(c.URLPrefix, "/") + "/" + verb
}

// checkExtended returns why name is not the name of an extended resource.
func checkExtended(name corev1.ResourceName) error {
	for _, problem := range validation.IsQualifiedName(string(name)) {
		return errors.New(problem)
	}
	const quota = corev1.DefaultResourceRequestsPrefix
	native := !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	if native || strings.HasPrefix(string(name), quota) || len(validation.IsQualifiedName(quota+string(name))) > 0 {
		return errors.New("not the name of an extended resource")
	}
	return nil
}
