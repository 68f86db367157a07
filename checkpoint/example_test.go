package checkpoint_test

import (
	"context"
	"fmt"
	"os"

	"github.com/criadapter/criadapter/checkpoint"
)

// A record survives the process: the next Open of the directory finds it.
func ExampleStore() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "checkpoint-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	store, err := checkpoint.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = store.Save(ctx,
		checkpoint.Record{SandboxID: "4f6c1ab0e9d2", Name: "web", Namespace: "default", UID: "1234",
			Phase: checkpoint.PhaseIntent})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = store.Update(ctx, "4f6c1ab0e9d2", func(r *checkpoint.Record) error {
		r.Phase, r.Network = checkpoint.PhaseReady, &checkpoint.Network{Config: "pods", IPs: []string{"10.88.0.2"}}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	reopened, err := checkpoint.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	record, err := reopened.Load(ctx, "4f6c1ab0e9d2")
	fmt.Println(record.Phase, record.Network.IPs, err)
	// Output: ready [10.88.0.2] <nil>
}
