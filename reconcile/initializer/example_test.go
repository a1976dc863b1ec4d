package initializer_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/reconcile/initializer"
	corev1 "k8s.io/api/core/v1"
)

func Example() {
	loop, err := initializer.New(initializer.Config[corev1.Secret]{
		Name: "password.example.com",
		URL:  "https://127.0.0.1:6443/api/v1/secrets",
		Initialize: func(_ context.Context, secret *corev1.Secret) error {
			if len(secret.Data["password"]) < 8 {
				return initializer.Refuse("the password of %s is short", secret.Name)
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a program would run it until it receives it to stop
	fmt.Println(loop.Run(ctx))
	// Output: <nil>
}
