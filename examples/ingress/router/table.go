package router

import (
	"cmp"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// A Backend is a port of a service.
type Backend struct {
	// Service is the key of the service, "namespace/name".
	Service string
	// Port has either a name or a number.
	Port networkingv1.ServiceBackendPort
}

// A Problem is a part of an ingress that has no effect.
type Problem struct {
	Ingress *networkingv1.Ingress
	// Reason is a word in CamelCase, and Message a sentence.
	Reason, Message string
}

// A Table finds the backends of requests. It does not change, so it is safe for concurrent use.
type Table struct {
	// hosts has exact names, wildcards such as *.example.com, and "" for all hosts.
	hosts map[string]*host
	// fallback is the default backend of the oldest ingress that has one.
	fallback *Backend
	// secrets has the keys of secrets by host, as hosts.
	secrets  map[string]string
	problems []Problem
	// ingresses, services and secretKeys have the keys of all that the table is made of or names.
	ingresses, services, secretKeys map[string]bool
}

// host has the paths of one host.
type host struct {
	exact, prefixes map[string]owned
	longest         int // length of the longest prefix, in bytes
	fallback        *Backend
}

// owned is a backend, and the ingress that it belongs to.
type owned struct {
	Backend
	by string
}

// NewTable returns the table of ingresses, which are in the order of their precedence: see [Own].
func NewTable(ingresses []*networkingv1.Ingress) *Table {
	t := &Table{
		hosts: map[string]*host{}, secrets: map[string]string{},
		ingresses: map[string]bool{}, services: map[string]bool{}, secretKeys: map[string]bool{},
	}
	for _, in := range ingresses {
		t.ingresses[Key(in)] = true
		fallback := t.backend(in, in.Spec.DefaultBackend)
		if t.fallback == nil {
			t.fallback = fallback
		}
		for i := range in.Spec.Rules {
			t.addRule(in, &in.Spec.Rules[i], fallback)
		}
		t.addSecrets(in)
	}
	return t
}

// Has reports whether the table was made of an ingress, by its key, among others.
func (t *Table) Has(ingress string) bool { return t.ingresses[ingress] }

// References returns the keys of the services and secrets that the ingresses name. They must not be changed.
func (t *Table) References() (services, secrets map[string]bool) { return t.services, t.secretKeys }

// Problems returns what has no effect.
func (t *Table) Problems() []Problem { return t.problems }

func (t *Table) report(in *networkingv1.Ingress, reason, format string, args ...any) {
	t.problems = append(t.problems, Problem{in, reason, fmt.Sprintf(format, args...)})
}

// backend returns a backend of an ingress, or nil if it has none or one that is not supported.
func (t *Table) backend(in *networkingv1.Ingress, b *networkingv1.IngressBackend) *Backend {
	switch {
	case b == nil:
		return nil
	case b.Service == nil:
		kind, name := "", ""
		if b.Resource != nil {
			kind, name = b.Resource.Kind, b.Resource.Name
		}
		t.report(in, "UnsupportedBackend", "the backend %s %s is not a service: it has no effect", kind, name)
		return nil
	}
	found := &Backend{in.Namespace + "/" + b.Service.Name, b.Service.Port}
	t.services[found.Service] = true
	return found
}

func (t *Table) addRule(in *networkingv1.Ingress, rule *networkingv1.IngressRule, fallback *Backend) {
	h := t.hosts[rule.Host]
	if h == nil {
		h = &host{exact: map[string]owned{}, prefixes: map[string]owned{}}
		t.hosts[rule.Host] = h
	}
	if h.fallback == nil {
		h.fallback = fallback
	}
	if rule.HTTP == nil {
		return
	}
	for i := range rule.HTTP.Paths {
		p := &rule.HTTP.Paths[i]
		backend := t.backend(in, &p.Backend)
		if backend == nil {
			continue
		}
		if _, ok := clean(cmp.Or(p.Path, "/")); !ok || strings.Contains(p.Path, "//") {
			t.report(in, "UnsupportedPath", "no request has the path %q", p.Path)
			continue
		}
		paths, path := h.prefixes, trim(p.Path)
		if p.PathType != nil && *p.PathType == networkingv1.PathTypeExact {
			paths, path = h.exact, p.Path
		} else {
			h.longest = max(h.longest, len(path))
		}
		if first, taken := paths[path]; taken {
			t.report(in, "Conflict", "path %q of host %q belongs to ingress %s already", p.Path, rule.Host, first.by)
			continue
		}
		paths[path] = owned{*backend, Key(in)}
	}
}

// trim returns a prefix without slashes at its end.
func trim(path string) string { return strings.TrimRight(path, "/") }

// addSecrets adds the secrets of an ingress. An entry without hosts is for the hosts of all rules.
func (t *Table) addSecrets(in *networkingv1.Ingress) {
	for _, tls := range in.Spec.TLS {
		if tls.SecretName == "" {
			continue
		}
		hosts, key := tls.Hosts, in.Namespace+"/"+tls.SecretName
		t.secretKeys[key] = true
		if len(hosts) == 0 {
			for _, rule := range in.Spec.Rules {
				hosts = append(hosts, rule.Host)
			}
		}
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for _, name := range hosts {
			if first, taken := t.secrets[name]; !taken {
				t.secrets[name] = key
			} else if first != key {
				t.report(in, "Conflict", "TLS of host %q uses secret %s of another ingress already", name, first)
			}
		}
	}
}

// Find returns the backend of a request by its host, as in the Host header, and its decoded path.
func (t *Table) Find(hostport, path string) (Backend, bool) {
	path, ok := clean(path)
	if !ok {
		return Backend{}, false
	}
	names := candidates(hostport)
	for _, name := range names {
		if h := t.hosts[name]; h != nil {
			if b, ok := h.find(path); ok {
				return b, true
			}
		}
	}
	for _, name := range names {
		if h := t.hosts[name]; h != nil && h.fallback != nil {
			return *h.fallback, true
		}
	}
	if t.fallback != nil {
		return *t.fallback, true
	}
	return Backend{}, false
}

// find returns the backend of a clean path. An exact path is at least as long as any prefix.
func (h *host) find(path string) (Backend, bool) {
	if b, ok := h.exact[path]; ok {
		return b.Backend, true
	}
	// A client chooses the length of its path, the table that of its prefixes.
	for end := len(path); end >= 0; end = strings.LastIndexByte(path[:end], '/') {
		if end > h.longest {
			end = h.longest + 1
			continue
		}
		if b, ok := h.prefixes[path[:end]]; ok {
			return b.Backend, true
		}
	}
	return Backend{}, false
}

// SecretFor returns the key of the secret with the certificate for a server name, which is empty if the
// client sent none.
func (t *Table) SecretFor(serverName string) (string, bool) {
	for _, name := range candidates(serverName) {
		if key, ok := t.secrets[name]; ok {
			return key, true
		}
	}
	return "", false
}
