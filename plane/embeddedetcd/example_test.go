package embeddedetcd_test

import (
	"context"
	"fmt"
	"os"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/embeddedetcd"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A control plane that keeps its objects: what the first run writes, the second one reads.
func Example() {
	dir, err := os.MkdirTemp("", "widgets")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for range 2 {
		if err := serve(dir, remember); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// created
	// red
}

// serve runs a control plane until use returns.
func serve(dir string, use func(context.Context, *plane.Plane) error) error {
	p, err := plane.New(plane.Config{Dir: dir, OpenStore: embeddedetcd.Open})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-p.Ready():
	case err := <-ended:
		return err
	}
	err = use(ctx, p)
	stop()
	if ended := <-ended; err == nil {
		err = ended
	}
	return err
}

func remember(ctx context.Context, p *plane.Plane) error {
	maps := typed.ConfigMaps(p.Client())
	have, err := maps.Get(ctx, "default", "colors")
	if err == nil {
		fmt.Println(have.Data["color"])
		return nil
	}
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colors"}, Data: map[string]string{"color": "red"}})
	if err == nil {
		fmt.Println("created")
	}
	return err
}
