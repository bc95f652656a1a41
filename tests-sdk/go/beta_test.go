//go:build beta

package suite

import (
	"encoding/json"
	"sort"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// changes of a range until now, and where to go on.
func changes(t testing.TB, container *azcosmos.ContainerClient, options azcosmos.ChangeFeedOptions) ([]float64, string) {
	t.Helper()
	var found []float64
	for {
		page, err := container.GetChangeFeed(ctx, &options)
		must(t, err)
		for _, document := range page.Documents {
			var change struct{ N float64 }
			must(t, json.Unmarshal(document, &change))
			found = append(found, change.N)
		}
		options.Continuation = &page.ContinuationToken
		if page.Count == 0 {
			sort.Float64s(found)
			return found, page.ContinuationToken
		}
	}
}

// check: change-feed
func TestTheLatestVersionOfEveryItemComesOnceAndThenTheNewOnes(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), fivePartitions)
	for _, one := range numbered(60) {
		create(t, container, one)
	}
	ranges, err := container.GetFeedRanges(ctx)
	must(t, err)
	equal(t, len(ranges), 5)
	var first, second []float64
	continuations := map[azcosmos.FeedRange]string{}
	for _, one := range ranges {
		found, continuation := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &one, MaxItemCount: 7})
		first = append(first, found...)
		continuations[one] = continuation
	}
	sort.Float64s(first)
	equal(t, first, numbersUpTo(60))
	create(t, container, item{"id": "new", "pk": "k1", "n": 60.0})
	for one, continuation := range continuations {
		found, _ := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &one, Continuation: &continuation})
		second = append(second, found...)
	}
	equal(t, second, []float64{60})
}

// check: change-feed-starts
func TestATimeAndAKeyAreStarts(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	for _, one := range numbered(40) {
		create(t, container, one)
	}
	ranges, err := container.GetFeedRanges(ctx)
	must(t, err)
	earlier, later := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	all, _ := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], StartFrom: &earlier})
	equal(t, all, numbersUpTo(40))
	none, _ := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], StartFrom: &later})
	equal(t, len(none), 0)
	one := key("k3")
	ofKey, _ := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], PartitionKey: &one})
	equal(t, ofKey, []float64{3, 23})
}

// check: read-many
func TestManyItemsAreReadAtOnce(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), fivePartitions)
	var wanted []azcosmos.ItemIdentity
	for _, one := range numbered(40) {
		create(t, container, one)
		wanted = append(wanted, azcosmos.ItemIdentity{ID: one["id"].(string), PartitionKey: key(one["pk"].(string))})
	}
	found, err := container.ReadManyItems(ctx, wanted, nil)
	must(t, err)
	var numbers []float64
	for _, one := range found.Items {
		numbers = append(numbers, own(t, one)["n"].(float64))
	}
	sort.Float64s(numbers)
	equal(t, numbers, numbersUpTo(40))
}

// check: motion-read-many
func TestManyItemsAreReadBetweenTheSteps(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, ownClient(t))
	container := newContainer(t, database, 400)
	var wanted []azcosmos.ItemIdentity
	for _, one := range numbered(40) {
		create(t, container, one)
		wanted = append(wanted, azcosmos.ItemIdentity{ID: one["id"].(string), PartitionKey: key(one["pk"].(string))})
	}
	motion := newMotion(t, database, container, 0)
	for round := 0; round < 6; round++ {
		found, err := container.ReadManyItems(ctx, wanted, nil)
		must(t, err)
		equal(t, len(found.Items), 40)
		motion.next()
	}
}
