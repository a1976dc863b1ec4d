package kube_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const servicePath = "/api/v1/namespaces/team/services"

// serviceServer serves a cluster with two addresses of each family and three
// node ports.
func serviceServer(t *testing.T) client {
	c := kube.Config{
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30"), netip.MustParsePrefix("fd00::/126")},
		NodePorts:    kube.PortRange{First: 30000, Last: 30002},
	}
	return client{t, apiservertest.Start(t, apiservertest.WithResources(kube.ResourcesFor(c)...)), "application/json"}
}

func (c client) service(data []byte) *corev1.Service {
	c.t.Helper()
	s := &corev1.Service{}
	if err := yaml.Unmarshal(data, s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

func TestServiceAddresses(t *testing.T) {
	c := serviceServer(t)
	a := c.service(c.do("POST", servicePath, `{metadata: {name: a}, spec: {ports: [{port: 80}]}}`, 201))
	if len(a.Spec.ClusterIPs) != 1 || a.Spec.ClusterIP != a.Spec.ClusterIPs[0] || !strings.HasPrefix(a.Spec.ClusterIP, "10.0.0.") ||
		*a.Spec.IPFamilyPolicy != "SingleStack" || len(a.Spec.IPFamilies) != 1 || a.Spec.IPFamilies[0] != "IPv4" {
		t.Errorf("spec %+v", a.Spec)
	}
	c.refused(`{metadata: {name: b}, spec: {clusterIP: `+a.Spec.ClusterIP+`, ports: [{port: 80}]}}`,
		422, `spec.clusterIPs: Invalid value: [\"`+a.Spec.ClusterIP+`\"]: failed to allocate IP `+a.Spec.ClusterIP+`: provided IP is already allocated`)
	c.refused(`{metadata: {name: b}, spec: {clusterIP: 10.1.0.1, ports: [{port: 80}]}}`,
		422, `failed to allocate IP 10.1.0.1: the provided network does not match the current range`)
	b := c.service(c.do("POST", servicePath, `{metadata: {name: b}, spec: {ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}}`, 201))
	if len(b.Spec.ClusterIPs) != 2 || b.Spec.ClusterIPs[0] == a.Spec.ClusterIP || !strings.HasPrefix(b.Spec.ClusterIPs[1], "fd00::") {
		t.Errorf("spec %+v", b.Spec)
	}
	c.refused(`{metadata: {name: c}, spec: {ports: [{port: 80}]}}`, 500, `failed to allocate a serviceIP for Service \"c\": range is full`)
	none := c.service(c.do("POST", servicePath, `{metadata: {name: none}, spec: {clusterIP: None, selector: {a: b}}}`, 201))
	if len(none.Spec.ClusterIPs) != 1 || none.Spec.ClusterIP != "None" {
		t.Errorf("spec %+v", none.Spec)
	}
	// One that becomes a name gives its address back, and so does one that goes.
	c.do("PUT", servicePath+"/a", `{metadata: {name: a}, spec: {type: ExternalName, externalName: example.com, ports: [{port: 80}]}}`, 200)
	c.do("POST", servicePath, `{metadata: {name: c}, spec: {clusterIP: `+a.Spec.ClusterIP+`, ports: [{port: 80}]}}`, 201)
	c.do("DELETE", servicePath+"/b", "", 200)
	again := c.service(c.do("POST", servicePath, `{metadata: {name: b}, spec: {clusterIP: `+b.Spec.ClusterIP+`, ports: [{port: 80}]}}`, 201))
	if again.Spec.ClusterIP != b.Spec.ClusterIP {
		t.Errorf("spec %+v", again.Spec)
	}
}

func (c client) refused(body string, status int, text string) {
	c.t.Helper()
	if answer := string(c.do("POST", servicePath, body, status)); !strings.Contains(answer, text) {
		c.t.Errorf("have %s\nwant %s", answer, text)
	}
}

func TestServiceNodePorts(t *testing.T) {
	c := serviceServer(t)
	a := c.service(c.do("POST", servicePath, `
metadata: {name: a}
spec: {type: NodePort, ports: [{name: tcp, port: 53}, {name: udp, port: 53, protocol: UDP}, {name: web, port: 80, nodePort: 30001}]}`, 201))
	p := a.Spec.Ports
	if p[0].NodePort == 0 || p[0].NodePort == 30001 || p[0].NodePort != p[1].NodePort || p[2].NodePort != 30001 {
		t.Errorf("ports %+v", p)
	}
	// An update without the allocated values keeps them.
	kept := c.service(c.do("PUT", servicePath+"/a", `
metadata: {name: a}
spec: {type: NodePort, ports: [{name: tcp, port: 54}, {name: web, port: 80}]}`, 200))
	if kept.Spec.ClusterIP != a.Spec.ClusterIP || kept.Spec.Ports[0].NodePort != p[0].NodePort || kept.Spec.Ports[1].NodePort != 30001 {
		t.Errorf("spec %+v", kept.Spec)
	}
	c.refused(`{metadata: {name: b}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30001}]}}`,
		422, `spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated`)
	c.refused(`{metadata: {name: b}, spec: {type: NodePort, ports: [{port: 80, nodePort: 5}]}}`,
		422, `spec.ports[0].nodePort: Invalid value: 5: provided port is not in the valid range. The range of valid ports is 30000-30002`)
	b := c.service(c.do("POST", servicePath, `
metadata: {name: b}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}`, 201))
	if b.Spec.HealthCheckNodePort == 0 || b.Spec.Ports[0].NodePort != 0 {
		t.Errorf("spec %+v", b.Spec)
	}
	c.do("DELETE", servicePath+"/b", "", 200)
	c.do("PUT", servicePath+"/a", `{metadata: {name: a}, spec: {type: ClusterIP, ports: [{name: web, port: 80}]}}`, 200)
	c.do("POST", servicePath, `{metadata: {name: c}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30001}]}}`, 201)
	if ports := c.service(c.do("GET", servicePath+"/a", "", 200)).Spec.Ports; ports[0].NodePort != 0 {
		t.Errorf("ports %+v", ports)
	}
}
