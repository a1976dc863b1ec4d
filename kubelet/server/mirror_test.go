package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/planekit/planekit/kubelet/server"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestMirrorUID: a static pod is found by its own UID and by that of its mirror pod, and by no other.
func TestMirrorUID(t *testing.T) {
	k := start(t, func(c *server.Config) {
		c.MirrorUID = func(pod *corev1.Pod) (types.UID, bool) { return "uid-mirror", pod.Name == "web" }
	})
	k.runtime.stream = runtimeStream(t, echo)
	for _, uid := range []string{"uid-web", "uid-mirror"} {
		conn, reader := k.dial("/exec/default/web/" + uid + "/c?command=sh&output=1")
		fmt.Fprint(conn, "ping\n")
		if line, err := reader.ReadString('\n'); err != nil || line != "ping\n" {
			t.Errorf("exec with the UID %s answers %q, %v, want \"ping\\n\"", uid, line, err)
		}
		conn.Close()
	}
	k.want(http.MethodPost, "root", "/exec/default/web/uid-other/c?command=sh&output=1", 404, "pod does not exist")
}
