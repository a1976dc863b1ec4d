package plane_test

import (
	"net"
	"strings"
	"testing"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
)

// TestSchedulerFile checks that the profiles of a file replace the default one, before Config.Scheduler sees them,
// and that extenders are refused.
func TestSchedulerFile(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for text, want := range map[string]string{
		"profiles: [{schedulerName: a}, {schedulerName: b}]":    "",
		"extenders: [{urlPrefix: 'http://x', filterVerb: f}]\n": "plane: extenders of a scheduler are not supported",
	} {
		file, err := policy.DecodeConfiguration([]byte(head + text))
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close() // it does not run
		var names []string
		_, err = plane.New(plane.Config{Listener: listener, SchedulerFile: file, Scheduler: func(c *schedule.Config) {
			for _, p := range c.Profiles {
				names = append(names, p.Name+":"+p.Predicates[0].Name())
			}
		}})
		switch {
		case want == "" && (err != nil || strings.Join(names, " ") != "a:VolumeBinding b:VolumeBinding"):
			t.Errorf("%s: %v, error %v", text, names, err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s: error %v", text, err)
		}
	}
}
