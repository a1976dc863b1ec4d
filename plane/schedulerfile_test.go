package plane_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	"github.com/planekit/planekit/schedule/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const schedulerHead = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// withSchedulerFile makes a plane, which does not run, and returns the configuration of its scheduler.
func withSchedulerFile(t *testing.T, text string) (schedule.Config, error) {
	t.Helper()
	file, err := policy.DecodeConfiguration([]byte(schedulerHead + text))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var config schedule.Config
	_, err = plane.New(plane.Config{Listener: listener, SchedulerFile: file, Scheduler: func(c *schedule.Config) { config = *c }})
	return config, err
}

// TestSchedulerFile checks that the profiles of a file replace the default one, before Config.Scheduler sees them.
func TestSchedulerFile(t *testing.T) {
	config, err := withSchedulerFile(t, "profiles: [{schedulerName: a}, {schedulerName: b}]")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range config.Profiles {
		names = append(names, p.Name+":"+p.Predicates[0].Name())
	}
	if strings.Join(names, " ") != "a:VolumeRestrictions b:VolumeRestrictions" {
		t.Errorf("the profiles with their first predicates are %v, want [a:VolumeRestrictions b:VolumeRestrictions]", names)
	}
}

// TestSchedulerExtender asks an extender of a file over TLS, with a certificate of the authority in the file and
// of another one.
func TestSchedulerExtender(t *testing.T) {
	server := httptest.NewTLSServer(extender.Handler{Filter: func(_ *corev1.Pod, n *corev1.Node) schedule.Verdict {
		if n.Name == "b" {
			return schedule.Refuse("node(s) were called b")
		}
		return schedule.Fits
	}})
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that the client did not trust it
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	other, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		tls   string
		trust bool
	}{
		"the authority":    {fmt.Sprintf("tlsConfig: {serverName: example.com, caData: %s}", base64.StdEncoding.EncodeToString(ca)), true},
		"another":          {fmt.Sprintf("tlsConfig: {caData: %s}", base64.StdEncoding.EncodeToString(other.CertificatePEM)), false},
		"none":             {"enableHTTPS: true", true},
		"not to verify it": {"tlsConfig: {insecure: true}", true},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := withSchedulerFile(t, fmt.Sprintf("extenders: [{urlPrefix: '%s', filterVerb: filter, %s}]", server.URL, test.tls))
			if err != nil {
				t.Fatal(err)
			}
			nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
			accepted, refused, err := config.Extenders[0].Filter(t.Context(), &corev1.Pod{}, nodes)
			if test.trust && (err != nil || !slices.Equal(accepted, []string{"a"}) || refused["b"].OK()) || !test.trust && err == nil {
				t.Errorf("accepted %v, refused %v, error %v", accepted, refused, err)
			}
		})
	}
	if _, err := withSchedulerFile(t, "extenders: [{urlPrefix: 'https://x', filterVerb: f, tlsConfig: {caFile: missing}}]"); err == nil ||
		!strings.Contains(err.Error(), "extenders[0]: tlsConfig.caFile: open missing") {
		t.Errorf("without the file: %v", err)
	}
}
