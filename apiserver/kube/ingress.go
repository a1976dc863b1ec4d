package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func ingresses() apiserver.Resource {
	type ingress = networkingv1.Ingress
	return apiserver.Resource{
		Group:      networkingv1.GroupName,
		Version:    "v1",
		Kind:       "Ingress",
		Plural:     "ingresses",
		ShortNames: []string{"ing"},
		Namespaced: true,
		New:        func() runtime.Object { return &ingress{} },
		NewList:    func() runtime.Object { return &networkingv1.IngressList{} },
		Strategy: strategy[*ingress]{
			create: func(in *ingress) {
				in.Status = networkingv1.IngressStatus{}
				in.Generation = 1
			},
			update: func(in, old *ingress) {
				old.Status.DeepCopyInto(&in.Status)
				in.Generation = nextGeneration(old.Generation, differ(&in.Spec, &old.Spec))
			},
			validate: func(in *ingress) field.ErrorList {
				ps := problems{list: validateIngress(in)}
				class, ok := in.Annotations[ingressClassAnnotation]
				ps.valid(!ok || in.Spec.IngressClassName == nil || class == *in.Spec.IngressClassName,
					field.NewPath("annotations", ingressClassAnnotation), class, "must match `ingressClassName` when both are specified")
				return ps.list
			},
			validateUpdate: func(in, _ *ingress) field.ErrorList { return validateIngress(in) },
		}.erase(),
		Columns: ingressColumns(),
		Subresources: []apiserver.Subresource{
			status(strategy[*ingress]{
				update:         func(in, old *ingress) { old.Spec.DeepCopyInto(&in.Spec) },
				validateUpdate: validateIngressStatus,
			}),
		},
	}
}

// ingressClassAnnotation said the class before there was a field for it.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// shownHosts is how many kubectl shows.
const shownHosts = 3

func ingressColumns() []apiserver.Column {
	spec, status := networkingv1.IngressSpec{}.SwaggerDoc(), networkingv1.IngressStatus{}.SwaggerDoc()
	type ingress = networkingv1.Ingress
	return []apiserver.Column{
		text("Class", "The name of the IngressClass resource that should be used for additional configuration", func(in *ingress) string {
			if in.Spec.IngressClassName == nil {
				return none
			}
			return *in.Spec.IngressClassName
		}),
		text("Hosts", "Hosts that incoming requests are matched against before the ingress rule", ingressHosts),
		text("Address", status["loadBalancer"], func(in *ingress) string {
			var out []string
			for _, b := range in.Status.LoadBalancer.Ingress {
				if name := cmp.Or(b.IP, b.Hostname); name != "" {
					out = append(out, name)
				}
			}
			slices.Sort(out)
			return strings.Join(slices.Compact(out), ",")
		}),
		text("Ports", spec["tls"], func(in *ingress) string {
			if len(in.Spec.TLS) > 0 {
				return "80, 443"
			}
			return "80"
		}),
		age[*ingress](),
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
	var ps problems
	p, spec := field.NewPath("spec"), &in.Spec
	ps.valid(len(spec.Rules) > 0 || spec.DefaultBackend != nil, p, spec.Rules, "either `defaultBackend` or `rules` must be specified")
	if spec.DefaultBackend != nil {
		checkBackend(&ps, p.Child("defaultBackend"), spec.DefaultBackend)
	}
	for i, rule := range spec.Rules {
		at := p.Child("rules").Index(i)
		if rule.Host != "" {
			_, isIP := parseIP(rule.Host)
			ps.valid(!isIP, at.Child("host"), rule.Host, "must be a DNS name, not an IP address")
			checkIngressHost(&ps, at.Child("host"), rule.Host)
		}
		if rule.HTTP == nil {
			continue
		}
		paths := at.Child("http", "paths")
		ps.present(len(rule.HTTP.Paths) > 0, paths, "")
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
			ps.subdomain(at.Child("secretName"), tls.SecretName)
		}
	}
	if spec.IngressClassName != nil {
		ps.subdomain(p.Child("ingressClassName"), *spec.IngressClassName)
	}
	return ps.list
}

func checkIngressHost(ps *problems, p *field.Path, host string) {
	if strings.Contains(host, "*") {
		ps.each(p, host, validation.IsWildcardDNS1123Subdomain(host))
		return
	}
	ps.subdomain(p, host)
}

func checkIngressPath(ps *problems, p *field.Path, path *networkingv1.HTTPIngressPath) {
	if path.PathType == nil {
		ps.add(field.Required(p.Child("pathType"), "pathType must be specified"))
		return
	}
	at := p.Child("path")
	switch *path.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		ps.valid(strings.HasPrefix(path.Path, "/"), at, path.Path, "must be an absolute path")
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			ps.valid(!strings.Contains(path.Path, part), at, path.Path, fmt.Sprintf("must not contain '%s'", part))
		}
		for _, end := range []string{"/..", "/."} {
			ps.valid(!strings.HasSuffix(path.Path, end), at, path.Path, fmt.Sprintf("cannot end with '%s'", end))
		}
	case networkingv1.PathTypeImplementationSpecific:
		ps.valid(path.Path == "" || strings.HasPrefix(path.Path, "/"), at, path.Path, "must be an absolute path")
	default:
		oneOf(ps, p.Child("pathType"), *path.PathType,
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	}
	checkBackend(ps, p.Child("backend"), &path.Backend)
}

func checkBackend(ps *problems, p *field.Path, b *networkingv1.IngressBackend) {
	switch {
	case b.Resource != nil && b.Service != nil:
		ps.add(field.Invalid(p, "", "cannot set both resource and service backends"))
	case b.Resource != nil:
		checkObjectReference(ps, p.Child("resource"), b.Resource)
	case b.Service != nil:
		at := p.Child("service")
		if ps.required(at.Child("name"), b.Service.Name) {
			ps.dnsLabel(at.Child("name"), b.Service.Name)
		}
		switch port := b.Service.Port; {
		case port.Name != "" && port.Number != 0:
			ps.add(field.Invalid(p, "", "cannot set both port name & port number"))
		case port.Name != "":
			ps.each(at.Child("port", "name"), port.Name, validation.IsValidPortName(port.Name))
		case port.Number != 0:
			ps.each(at.Child("port", "number"), port.Number, validation.IsValidPortNum(int(port.Number)))
		default:
			ps.add(field.Required(p, "port name or number is required"))
		}
	default:
		ps.add(field.Invalid(p, "", "resource or service backend is required"))
	}
}

func checkObjectReference(ps *problems, p *field.Path, ref *corev1.TypedLocalObjectReference) {
	if ref.APIGroup != nil {
		ps.subdomain(p.Child("apiGroup"), *ref.APIGroup)
	}
	checkSegment(ps, p.Child("kind"), ref.Kind)
	checkSegment(ps, p.Child("name"), ref.Name)
}

// checkSegment requires something that can be a segment of a URL's path.
func checkSegment(ps *problems, p *field.Path, s string) {
	if ps.required(p, s) {
		ps.each(p, s, content.IsPathSegmentName(s))
	}
}

func validateIngressStatus(in, old *networkingv1.Ingress) field.ErrorList {
	var ps problems
	var were []string
	for _, b := range old.Status.LoadBalancer.Ingress {
		were = append(were, b.IP)
	}
	for i, b := range in.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if b.IP != "" {
			ps.all(validation.IsValidIPForLegacyField(at.Child("ip"), b.IP, true, were))
		}
		checkBalancerHost(&ps, at.Child("hostname"), b.Hostname)
	}
	return ps.list
}
