package networking

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Ingresses returns the resource of the kind Ingress.
func Ingresses() apiserver.Resource {
	type ingress = networkingv1.Ingress
	return apiserver.For(kinds.Ingresses, apiserver.Resource{
		Strategy: define.Strategy[*ingress]{
			Counted: func(in *ingress) any { return &in.Spec },
			Create:  func(in *ingress) { in.Status = networkingv1.IngressStatus{} },
			Update:  func(in, old *ingress) { old.Status.DeepCopyInto(&in.Status) },
			Validate: func(in *ingress) field.ErrorList {
				ps := check.Problems{List: validateIngress(in)}
				class, ok := in.Annotations[ingressClassAnnotation]
				ps.Valid(!ok || in.Spec.IngressClassName == nil || class == *in.Spec.IngressClassName,
					field.NewPath("annotations", ingressClassAnnotation), class, "must match `ingressClassName` when both are specified")
				return ps.List
			},
			ValidateUpdate: func(in, _ *ingress) field.ErrorList { return validateIngress(in) },
		}.Erase(),
		Columns: ingressColumns(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*ingress]{
				Update:         func(in, old *ingress) { old.Spec.DeepCopyInto(&in.Spec) },
				ValidateUpdate: validateIngressStatus,
			}),
		},
	})
}

// ingressClassAnnotation said the class before there was a field for it.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// shownHosts is the number of hosts that kubectl shows.
const shownHosts = 3

func ingressColumns() []apiserver.Column {
	spec, status := networkingv1.IngressSpec{}.SwaggerDoc(), networkingv1.IngressStatus{}.SwaggerDoc()
	type ingress = networkingv1.Ingress
	return []apiserver.Column{
		column.Text("Class", "The name of the IngressClass resource that should be used for additional configuration", func(in *ingress) string {
			if in.Spec.IngressClassName == nil {
				return column.None
			}
			return *in.Spec.IngressClassName
		}),
		column.Text("Hosts", "Hosts that incoming requests are matched against before the ingress rule", ingressHosts),
		column.Text("Address", status["loadBalancer"], func(in *ingress) string {
			var out []string
			for _, b := range in.Status.LoadBalancer.Ingress {
				if name := cmp.Or(b.IP, b.Hostname); name != "" {
					out = append(out, name)
				}
			}
			slices.Sort(out)
			return strings.Join(slices.Compact(out), ",")
		}),
		column.Text("Ports", spec["tls"], func(in *ingress) string {
			if len(in.Spec.TLS) > 0 {
				return "80, 443"
			}
			return "80"
		}),
		column.Age[*ingress](),
	}
}

func ingressHosts(in *networkingv1.Ingress) string {
	var hosts []string
	for i, rule := range in.Spec.Rules {
		if len(hosts) == shownHosts {
			return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(in.Spec.Rules[i:])+i-shownHosts)
		}
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	return cmp.Or(strings.Join(hosts, ","), "*")
}

func validateIngress(in *networkingv1.Ingress) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &in.Spec
	ps.Valid(len(spec.Rules) > 0 || spec.DefaultBackend != nil, p, spec.Rules, "either `defaultBackend` or `rules` must be specified")
	if spec.DefaultBackend != nil {
		checkBackend(&ps, p.Child("defaultBackend"), spec.DefaultBackend)
	}
	for i, rule := range spec.Rules {
		at := p.Child("rules").Index(i)
		if rule.Host != "" {
			_, isIP := check.ParseIP(rule.Host)
			ps.Valid(!isIP, at.Child("host"), rule.Host, "must be a DNS name, not an IP address")
			checkIngressHost(&ps, at.Child("host"), rule.Host)
		}
		if rule.HTTP == nil {
			continue
		}
		paths := at.Child("http", "paths")
		ps.Present(len(rule.HTTP.Paths) > 0, paths, "")
		for j := range rule.HTTP.Paths {
			checkIngressPath(&ps, paths.Index(j), &rule.HTTP.Paths[j])
		}
	}
	for i, tls := range spec.TLS {
		at := p.Child("tls").Index(i)
		for j, host := range tls.Hosts {
			checkIngressHost(&ps, at.Child("hosts").Index(j), host)
		}
		if tls.SecretName != "" {
			ps.Subdomain(at.Child("secretName"), tls.SecretName)
		}
	}
	if spec.IngressClassName != nil {
		ps.Subdomain(p.Child("ingressClassName"), *spec.IngressClassName)
	}
	return ps.List
}

func checkIngressHost(ps *check.Problems, p *field.Path, host string) {
	if strings.Contains(host, "*") {
		ps.Each(p, host, validation.IsWildcardDNS1123Subdomain(host))
		return
	}
	ps.Subdomain(p, host)
}

func checkIngressPath(ps *check.Problems, p *field.Path, path *networkingv1.HTTPIngressPath) {
	if path.PathType == nil {
		ps.Add(field.Required(p.Child("pathType"), "pathType must be specified"))
		return
	}
	at := p.Child("path")
	switch *path.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		ps.Valid(strings.HasPrefix(path.Path, "/"), at, path.Path, "must be an absolute path")
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			ps.Valid(!strings.Contains(path.Path, part), at, path.Path, fmt.Sprintf("must not contain '%s'", part))
		}
		for _, end := range []string{"/..", "/."} {
			ps.Valid(!strings.HasSuffix(path.Path, end), at, path.Path, fmt.Sprintf("cannot end with '%s'", end))
		}
	case networkingv1.PathTypeImplementationSpecific:
		ps.Valid(path.Path == "" || strings.HasPrefix(path.Path, "/"), at, path.Path, "must be an absolute path")
	default:
		check.OneOf(ps, p.Child("pathType"), *path.PathType,
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	}
	checkBackend(ps, p.Child("backend"), &path.Backend)
}

func checkBackend(ps *check.Problems, p *field.Path, b *networkingv1.IngressBackend) {
	switch {
	case b.Resource != nil && b.Service != nil:
		ps.Add(field.Invalid(p, "", "cannot set both resource and service backends"))
	case b.Resource != nil:
		checkObjectReference(ps, p.Child("resource"), b.Resource)
	case b.Service != nil:
		at := p.Child("service")
		if ps.Required(at.Child("name"), b.Service.Name) {
			ps.DNSLabel(at.Child("name"), b.Service.Name)
		}
		switch port := b.Service.Port; {
		case port.Name != "" && port.Number != 0:
			ps.Add(field.Invalid(p, "", "cannot set both port name & port number"))
		case port.Name != "":
			ps.Each(at.Child("port", "name"), port.Name, validation.IsValidPortName(port.Name))
		case port.Number != 0:
			ps.Each(at.Child("port", "number"), port.Number, validation.IsValidPortNum(int(port.Number)))
		default:
			ps.Add(field.Required(p, "port name or number is required"))
		}
	default:
		ps.Add(field.Invalid(p, "", "resource or service backend is required"))
	}
}

func checkObjectReference(ps *check.Problems, p *field.Path, ref *corev1.TypedLocalObjectReference) {
	if ref.APIGroup != nil {
		ps.Subdomain(p.Child("apiGroup"), *ref.APIGroup)
	}
	checkSegment(ps, p.Child("kind"), ref.Kind)
	checkSegment(ps, p.Child("name"), ref.Name)
}

// checkSegment requires something that can be a segment of a URL's path.
func checkSegment(ps *check.Problems, p *field.Path, s string) {
	if ps.Required(p, s) {
		ps.Each(p, s, content.IsPathSegmentName(s))
	}
}

func validateIngressStatus(in, old *networkingv1.Ingress) field.ErrorList {
	var ps check.Problems
	var were []string
	for _, b := range old.Status.LoadBalancer.Ingress {
		were = append(were, b.IP)
	}
	for i, b := range in.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if b.IP != "" {
			ps.All(validation.IsValidIPForLegacyField(at.Child("ip"), b.IP, true, were))
		}
		check.LoadBalancerHost(&ps, at.Child("hostname"), b.Hostname)
	}
	return ps.List
}
