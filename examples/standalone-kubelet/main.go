// Command standalone-kubelet runs the pods of a directory, without an API server:
//
//	go run ./examples/standalone-kubelet --manifests ./manifests --root /tmp/pods
//
// With --config, it reads a KubeletConfiguration; package plane/standalone says on what it acts. Containers are
// simulated, unless --runtime-endpoint has the socket of a CRI runtime.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/plane/standalone"
)

func main() {
	c := standalone.Config{Log: funcr.New(func(_, line string) { log.Println(line) }, funcr.Options{})}
	flag.StringVar(&c.Root, "root", "/var/lib/standalone-kubelet", "directory of volumes and logs")
	flag.StringVar(&c.Socket, "runtime-endpoint", "", "socket of a CRI runtime (default one in this process)")
	flag.StringVar(&c.Manifests, "manifests", "", "directory of the pods' manifests (default staticPodPath of --config)")
	flag.StringVar(&c.ConfigFile, "config", "", "file with a KubeletConfiguration")
	flag.DurationVar(&c.Period, "file-check-frequency", 0, "how often the directory is read (default 20s)")
	flag.DurationVar(&c.Shutdown.GracePeriod, "shutdown-grace-period", 0, "how long pods may take to end before the machine shuts down (default 0: they are not ended; needs systemd-logind)")
	flag.DurationVar(&c.Shutdown.CriticalPods, "shutdown-grace-period-critical-pods", 0, "the part of --shutdown-grace-period for critical pods, which end last")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c); err != nil {
		log.Fatal(err)
	}
}

// run runs the pods until ctx is done, and then stops them.
func run(ctx context.Context, c standalone.Config) error {
	s := stack.New()
	return s.Main(ctx, func(ctx context.Context) error {
		if c.Socket == "" {
			if err := standalone.Simulate(ctx, s, &c); err != nil {
				return err
			}
		}
		_, err := standalone.Start(ctx, s, c)
		return err
	})
}
