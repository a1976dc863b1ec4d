package nodeproxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/nodeproxy"
	corev1 "k8s.io/api/core/v1"
)

// TestKubeletsAreVerifiedByName: a certificate of the authority that is good for the
// address is not enough: it must be the node's.
func TestKubeletsAreVerifiedByName(t *testing.T) {
	nodes := []string{"system:nodes"}
	for name, c := range map[string]struct {
		subject pkix.Name
		good    bool
	}{
		"the node's":              {pkix.Name{CommonName: "system:node:node-1", Organization: nodes}, true},
		"another node's":          {pkix.Name{CommonName: "system:node:node-2", Organization: nodes}, false},
		"a longer name":           {pkix.Name{CommonName: "system:node:node-11", Organization: nodes}, false},
		"of no group":             {pkix.Name{CommonName: "system:node:node-1"}, false},
		"of another group":        {pkix.Name{CommonName: "system:node:node-1", Organization: []string{"system:masters"}}, false},
		"no node's":               {pkix.Name{CommonName: "node-1", Organization: nodes}, false},
		"of the API server's own": {pkix.Name{CommonName: "apiserver"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, say("reached"))
			certificate, pool := subjectCertificate(c.subject, "node-1", "localhost")
			n.kubelet.Close()
			n.kubelet = httptest.NewUnstartedServer(say("reached"))
			n.kubelet.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
			n.kubelet.Config.ErrorLog = log.New(io.Discard, "", 0)
			n.kubelet.StartTLS()
			defer n.kubelet.Close()
			n.object = nodeAt(t, n.kubelet.Listener.Addr())
			n.proxy = newProxy(t, n, &tls.Config{RootCAs: pool})
			n.serve(t, testPod("node-1"))
			for _, path := range []string{podPath + "log?container=a", podPath + "exec?container=a&command=x", podPath + "portforward", "/api/v1/nodes/node-1/proxy/x"} {
				code, body := n.ask(t, "GET", path, nil)
				if c.good && (code != 200 || body != "reached") {
					t.Errorf("GET %s = %d %s, want 200 reached", path, code, body)
				}
				if !c.good && (code != 503 || !strings.Contains(body, `not of node "node-1"`)) {
					t.Errorf(`GET %s = %d %s, want 503 and not of node "node-1"`, path, code, body)
				}
			}
		})
	}
}

// TestConnectionsAreNotShared: a connection that was made to one node is not used
// for another that claims its address.
func TestConnectionsAreNotShared(t *testing.T) {
	n := startNode(t, say("reached"))
	if code, body := n.ask(t, "GET", "/api/v1/nodes/node-1/proxy/x", nil); code != 200 {
		t.Fatal(code, body)
	}
	liar := n.object.DeepCopy()
	liar.Name = "liar"
	handler, err := n.proxy.NodeProxy(liar)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/api/v1/nodes/liar/proxy/x", nil))
	if answer.Code != 503 || !strings.Contains(answer.Body.String(), "not of node") {
		t.Errorf("GET of the proxy of liar = %d %s, want 503 and not of node", answer.Code, answer.Body)
	}
	if code, body := n.ask(t, "GET", "/api/v1/nodes/node-1/proxy/x", nil); code != 200 {
		t.Error(code, body)
	}
}

// TestVerifyNode: another rule takes the place of the subject's.
func TestVerifyNode(t *testing.T) {
	n := startNode(t, say("reached"))
	for name, verdict := range map[string]error{"allows": nil, "refuses": errors.New("not mine")} {
		n.proxy = newProxy(t, n, n.tls, func(c *nodeproxy.Config) {
			c.VerifyNode = func(node string, certificate *x509.Certificate) error {
				if node != "node-1" || certificate.VerifyHostname("127.0.0.1") != nil {
					t.Errorf("asked about %s, %s", node, certificate.Subject)
				}
				return verdict
			}
		})
		n.serve(t, testPod("node-1"))
		if code, body := n.ask(t, "GET", "/api/v1/nodes/node-1/proxy/x", nil); code == 200 != (verdict == nil) {
			t.Errorf("GET with a VerifyNode that %s = %d %s, want 200: %v", name, code, body, verdict == nil)
		}
	}
}

// TestTheServerItself is never connected to, by whatever address or name, for nodes
// or for pods; nor are addresses that only the link knows.
func TestTheServerItself(t *testing.T) {
	asked := false
	n := startNode(t, func(w http.ResponseWriter, r *http.Request) { asked = true })
	here := netip.MustParseAddrPort(n.kubelet.Listener.Addr().String())
	host := "127.0.0.1"
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			host = network.IP.String()
		}
	}
	all := netip.AddrPortFrom(netip.IPv4Unspecified(), here.Port())
	for _, c := range []struct {
		address string
		port    uint16
		self    netip.AddrPort
		may     func(netip.Addr) error
	}{
		{"127.0.0.1", here.Port(), here, anywhere},
		{"::ffff:127.0.0.1", here.Port(), here, anywhere},
		{"0.0.0.0", here.Port(), here, anywhere},
		{"::", here.Port(), here, anywhere},
		{"localhost", here.Port(), all, anywhere},
		{"127.0.0.2", here.Port(), all, anywhere},
		{"::1", here.Port(), all, anywhere},
		{host, here.Port(), all, anywhere},
		{host, here.Port(), netip.AddrPortFrom(netip.IPv6Unspecified(), here.Port()), anywhere},
		// It may have another listener at its port.
		{host, here.Port(), here, anywhere},
		{"127.0.0.2", here.Port(), here, anywhere},
		{"192.0.2.7", 443, netip.MustParseAddrPort("192.0.2.7:443"), anywhere},
		{"127.0.0.1", here.Port(), netip.AddrPort{}, nil},
		{"localhost", here.Port(), netip.AddrPort{}, nil},
		{"0.0.0.0", here.Port(), netip.AddrPort{}, nil},
		{"169.254.169.254", 80, netip.AddrPort{}, nil},
		{"fe80::1", 80, netip.AddrPort{}, nil},
		{"224.0.0.1", 80, netip.AddrPort{}, nil},
	} {
		n.object.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: c.address}}
		n.object.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(c.port)
		n.proxy = newProxy(t, n, n.tls, func(config *nodeproxy.Config) {
			config.MayDialNode, config.MayDial = c.may, c.may
			if c.self.IsValid() {
				config.Self = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1"), c.self}
			}
		})
		pod := testPod("node-1")
		pod.Status.PodIP = c.address
		n.serve(t, pod)
		port := netip.AddrPortFrom(here.Addr(), c.port).String()[len("127.0.0.1:"):]
		paths := []string{podPath + "log?container=a", podPath + "exec?container=a", "/api/v1/nodes/node-1/proxy/api/v1/secrets"}
		if c.address != "localhost" { // which is no address of a pod
			paths = append(paths, "/api/v1/namespaces/default/pods/web:"+port+"/proxy/api/v1/secrets", "/api/v1/namespaces/default/pods/https:web:"+port+"/proxy/")
		}
		for _, path := range paths {
			code, body := n.ask(t, "GET", path, nil)
			if noIPv6 := strings.Contains(body, "cannot assign requested address") || strings.Contains(body, "address family not supported"); code != 400 && !noIPv6 || asked {
				t.Errorf("%s for %s: %d %s", path, c.address, code, body)
			}
		}
		n.front.Close()
	}
}
