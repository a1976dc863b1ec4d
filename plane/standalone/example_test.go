package standalone_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/plane/standalone"
)

// A node without an API server, whose containers are simulated, runs the pods of a directory.
func Example() {
	root, err := os.MkdirTemp("", "node")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: nginx}]}\n"
	manifests := filepath.Join(root, "manifests")
	if err := os.Mkdir(manifests, 0o700); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile(filepath.Join(manifests, "web.yaml"), []byte(manifest), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s := stack.New()
	err = s.Main(ctx, func(ctx context.Context) error {
		c := standalone.Config{Root: root, Manifests: manifests}
		if err := standalone.Simulate(ctx, s, &c); err != nil {
			return err
		}
		node, err := standalone.Start(ctx, s, c)
		for err == nil {
			if pod, ok := node.Pods().Get("default/web-standalone"); ok && pod.Status.Phase == "Running" {
				fmt.Println(pod.Name, "is", pod.Status.Phase)
				stop()
				break
			}
			time.Sleep(time.Millisecond)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// web-standalone is Running
	// <nil>
}
