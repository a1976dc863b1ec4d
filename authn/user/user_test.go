package user_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/planekit/planekit/authn/user"
)

func Example() {
	ctx := user.NewContext(context.Background(), &user.Info{Name: "jane", Groups: []string{"dev"}})
	u, ok := user.FromContext(ctx)
	fmt.Println(u.Name, u.In("dev"), u.In(user.Masters), ok)
	// Output: jane true false true
}

func TestNobody(t *testing.T) {
	if u, ok := user.FromContext(t.Context()); ok || u.In(user.Authenticated) {
		t.Errorf("an empty context has user %v", u)
	}
	if _, ok := user.FromContext(user.NewContext(t.Context(), nil)); ok {
		t.Error("nil is a user")
	}
}
