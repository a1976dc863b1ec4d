package podconfig

import (
	"iter"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceVariables(t *testing.T) {
	service := func(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
	}
	all := []*corev1.Service{
		service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}),
		service("default", "other", "10.96.0.2", corev1.ServicePort{Port: 80}),
		service("shop", "redis-primary", "fd00::5", corev1.ServicePort{Port: 6379}, corev1.ServicePort{Name: "admin-ui", Port: 53, Protocol: corev1.ProtocolUDP}),
		service("shop", "headless", corev1.ClusterIPNone, corev1.ServicePort{Port: 80}),
	}
	b := &Builder{Services: func(namespace string) iter.Seq[*corev1.Service] {
		return slices.Values(slices.DeleteFunc(slices.Clone(all), func(s *corev1.Service) bool { return s.Namespace != namespace }))
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	container := &corev1.Container{Env: []corev1.EnvVar{
		{Name: "URL", Value: "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"}, {Name: "REDIS_PRIMARY_SERVICE_PORT", Value: "mine"},
	}}
	variables, err := b.environment(t.Context(), pod, container, Volumes{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"URL":                     "https://10.96.0.1:443",
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
		"KUBERNETES_PORT": "tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
		"KUBERNETES_PORT_443_TCP_PROTO": "tcp", "KUBERNETES_PORT_443_TCP_PORT": "443", "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
		"REDIS_PRIMARY_SERVICE_HOST": "fd00::5", "REDIS_PRIMARY_SERVICE_PORT": "mine", "REDIS_PRIMARY_SERVICE_PORT_ADMIN_UI": "53",
		"REDIS_PRIMARY_PORT": "tcp://[fd00::5]:6379", "REDIS_PRIMARY_PORT_6379_TCP": "tcp://[fd00::5]:6379",
		"REDIS_PRIMARY_PORT_6379_TCP_PROTO": "tcp", "REDIS_PRIMARY_PORT_6379_TCP_PORT": "6379", "REDIS_PRIMARY_PORT_6379_TCP_ADDR": "fd00::5",
		"REDIS_PRIMARY_PORT_53_UDP": "udp://[fd00::5]:53", "REDIS_PRIMARY_PORT_53_UDP_PROTO": "udp",
		"REDIS_PRIMARY_PORT_53_UDP_PORT": "53", "REDIS_PRIMARY_PORT_53_UDP_ADDR": "fd00::5",
	}
	if len(variables.values) != len(want) {
		t.Errorf("%d variables, want %d", len(variables.values), len(want))
	}
	for name, value := range want {
		if got := variables.values[name]; got != value {
			t.Errorf("%s=%q, want %q", name, got, value)
		}
	}
	pod.Spec.EnableServiceLinks = new(bool)
	if variables, err = b.environment(t.Context(), pod, &corev1.Container{}, Volumes{}); err != nil || len(variables.values) != 8 || variables.values["KUBERNETES_SERVICE_HOST"] == "" {
		t.Errorf("without links: %v %v", variables.values, err)
	}
}

func TestHostNames(t *testing.T) {
	b := &Builder{ClusterDomain: "cluster.local"}
	for _, test := range []struct {
		spec                  corev1.PodSpec
		kernel, short, errors string
	}{
		{corev1.PodSpec{}, "web", "web", ""},
		{corev1.PodSpec{Hostname: "one", Subdomain: "set"}, "one", "one", ""},
		{corev1.PodSpec{Hostname: "one", Subdomain: "set", SetHostnameAsFQDN: new(true)}, "one.set.shop.svc.cluster.local", "one", ""},
		{corev1.PodSpec{SetHostnameAsFQDN: new(true)}, "web", "web", ""},
		{corev1.PodSpec{HostnameOverride: new("box.example.com")}, "box.example.com", "box.example.com", ""},
		{corev1.PodSpec{Hostname: "a-name-that-is-long", Subdomain: "a-subdomain-that-is-long-too", SetHostnameAsFQDN: new(true)}, "", "a-name-that-is-long",
			"failed to construct FQDN from pod hostname and cluster domain, FQDN a-name-that-is-long.a-subdomain-that-is-long-too.shop.svc.cluster.local is too long (64 characters is the max, 71 characters requested)"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: test.spec}
		kernel, err := b.kernelHostname(pod)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if short := b.hostname(pod); kernel != test.kernel || short != test.short || message != test.errors {
			t.Errorf("%q %q %q, want %+v", kernel, short, message, test)
		}
	}
}
